#include "src/base/os/descriptor_packet.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

#include "src/base/os/fd_io.hpp"

namespace cxxrun::os {
namespace {

struct Ancillary {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

}  // namespace

ssize_t send_packet(int connection, std::string_view bytes, int descriptor, int flags) noexcept {
  iovec text{const_cast<char*>(bytes.data()),
             bytes.size()};  // NOLINT(cppcoreguidelines-pro-type-const-cast): only read
  Ancillary ancillary;
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = ancillary.bytes.data();
    message.msg_controllen = ancillary.bytes.size();
    cmsghdr* const control = CMSG_FIRSTHDR(&message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof descriptor);
    std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
  }
  return retried([&] { return sendmsg(connection, &message, MSG_NOSIGNAL | flags); });
}

ssize_t receive_packet(int connection, std::span<char> into, UniqueFd& descriptor, int flags) noexcept {
  iovec text{into.data(), into.size()};
  Ancillary ancillary;
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.bytes.data();
  message.msg_controllen = ancillary.bytes.size();
  ssize_t const n = retried([&] { return recvmsg(connection, &message, MSG_CMSG_CLOEXEC | flags); });
  int const error = errno;
  descriptor.reset();
  cmsghdr const* const control = CMSG_FIRSTHDR(&message);
  if (n >= 0 && control != nullptr && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS &&
      control->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
    descriptor.reset(fd);
  }
  errno = error;
  return n;
}

}  // namespace cxxrun::os
