#include "src/base/os/local_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "src/base/os/fd.hpp"
#include "src/base/os/random.hpp"

namespace cxxrun::os {
namespace {

constexpr int kLocalBacklog = 1024;  // all ranks of a node at once; the kernel lowers it to net.core.somaxconn
// Connections of other users closed in one call: a flood of them must not keep the caller from its other work.
constexpr int kMostTurnedAway = 16;
constexpr std::size_t kShownName = 200;

struct Ancillary {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

struct UnixAddress {
  sockaddr_un un{};
  socklen_t length = 0;
};

std::optional<UnixAddress> unix_address(std::string const& name) {
  UnixAddress a;
  a.un.sun_family = AF_UNIX;
  if (name.empty() || name.size() >= sizeof a.un.sun_path) {
    return std::nullopt;
  }
  std::size_t const at = name.front() == '/' ? 0 : 1;  // a leading zero byte makes the address abstract
  std::memcpy(a.un.sun_path + at, name.data(), name.size());
  a.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return a;
}

bool is_same_user(int connection) {
  ucred who{};
  socklen_t length = sizeof who;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid();
}

}  // namespace

Result<LocalSocket> listen_local(std::string const& directory) {
  LocalSocket made{directory.empty() ? "cxxrun-" + random_hex(32) : directory + "/" + random_hex(16), {}};
  made.fd.reset(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto const address = unix_address(made.name);
  if (!made.fd || !address ||
      bind(made.fd.get(), reinterpret_cast<sockaddr const*>(&address->un), address->length) != 0 ||
      listen(made.fd.get(), kLocalBacklog) != 0) {
    return fail(Errc::io, "cannot make the socket that shares memory within the node", errno);
  }
  return made;
}

UniqueFd accept_same_user(int listener) {
  for (int n = 0; n < kMostTurnedAway; ++n) {
    UniqueFd connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection ? is_same_user(connection.get()) : errno != EINTR && errno != ECONNABORTED) {
      return connection;
    }
  }
  errno = EAGAIN;
  return {};
}

Result<UniqueFd> connect_local(std::string const& name, int timeout_ms) {
  auto const address = unix_address(name);
  if (!address) {
    return fail(Errc::environment, "\"" + name.substr(0, kShownName) + "\" cannot be the name of a socket");
  }
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) {
    return fail(Errc::io, "cannot make a socket", errno);
  }
  int const ms = std::max(1, timeout_ms);  // 0 would mean no timeout
  timeval const timeout{ms / 1000, static_cast<suseconds_t>(ms % 1000) * 1000};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);  // connect() waits for a place in the queue
  while (connect(fd.get(), reinterpret_cast<sockaddr const*>(&address->un), address->length) != 0) {
    if (errno != EINTR) {
      return local_socket_error("cannot connect", errno);
    }
  }
  if (!is_same_user(fd.get())) {
    return fail(Errc::permission, "it belongs to another user");
  }
  return fd;
}

Error local_socket_error(std::string const& what, int error) {
  bool const gone = error == ECONNREFUSED || error == ECONNRESET || error == EPIPE || error == ENOENT;
  return fail(error == EAGAIN ? Errc::timeout : gone ? Errc::closed : Errc::io, what, error);
}

ssize_t send_packet(int connection, std::string_view bytes, int descriptor, int flags) noexcept {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): only read
  iovec text{const_cast<char*>(bytes.data()), bytes.size()};
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
