// A POSIX ACL as setfacl makes it, without a program that may not be installed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <sys/xattr.h>

namespace cxxrun::test {

/// Lets `user`, too, write into the directory; its owner may do everything, its group and all others read. False: the
/// file system has no ACLs.
inline bool let_write(std::string const& directory, uid_t user) {
  struct Entry {  // as the kernel reads it: linux/posix_acl_xattr.h
    std::uint16_t tag;
    std::uint16_t rights;
    std::uint32_t id;
  };
  struct Acl {
    std::uint32_t version;
    std::array<Entry, 5> entries;
  };
  constexpr std::uint32_t kNoId = UINT32_MAX;
  // owner, the user, group, the most that both of these have, others
  Acl const acl{2, {{{1, 7, kNoId}, {2, 7, user}, {4, 5, kNoId}, {16, 7, kNoId}, {32, 5, kNoId}}}};
  return ::setxattr(directory.c_str(), "system.posix_acl_access", &acl, sizeof acl, 0) == 0;
}

}  // namespace cxxrun::test
