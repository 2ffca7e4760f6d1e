// Unix sockets of type SOCK_SEQPACKET between processes of one user on one machine: to listen, to connect, and to send
// packets with at most one descriptor. Shell.
//
// An agent's socket is a file in a directory of its own, where other users cannot call. Without an agent the socket is
// abstract: it has no name in a file system, and every process in this network namespace may connect. Both ends
// therefore ask the kernel for the peer's user and talk to their own user only.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "cxxrun/error.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::os {

struct LocalSocket {
  std::string name;  ///< a path, which the caller removes, or the name of an abstract socket without its zero byte
  UniqueFd fd;       ///< non-blocking, close-on-exec
};
/// Listens under an unguessable name: in `directory`, or as an abstract socket when that is "".
[[nodiscard]] Result<LocalSocket> listen_local(std::string const& directory = "");

/// The next connection of a process of this user, non-blocking. Connections of other users are closed; after a few of
/// those it returns none with EAGAIN, although more may wait. None otherwise: errno is EAGAIN when the queue is empty,
/// or says what accept4 ran out of.
[[nodiscard]] UniqueFd accept_same_user(int listener);

/// Connects to that name: a path, or an abstract socket. The result is a blocking socket with these timeouts for
/// sending and receiving. Errors: closed (nobody listens), timeout, permission (the listener is another user's),
/// environment (no such name is possible), io.
[[nodiscard]] Result<UniqueFd> connect_local(std::string const& name, int timeout_ms);

/// Of a call on such a socket that failed with `error`: closed, timeout or io.
[[nodiscard]] Error local_socket_error(std::string const& what, int error);

/// Sends `bytes`, and `descriptor` unless it is -1. Returns what sendmsg() returns, and leaves its errno. Goes on after
/// a signal, and raises no SIGPIPE.
ssize_t send_packet(int connection, std::string_view bytes, int descriptor = -1, int flags = 0) noexcept;

/// Receives a packet, cut to `into`. `descriptor` becomes the one that came with it (close-on-exec), or none. Returns
/// what recvmsg() returns, and leaves its errno. Goes on after a signal.
ssize_t receive_packet(int connection, std::span<char> into, UniqueFd& descriptor, int flags = 0) noexcept;

}  // namespace cxxrun::os
