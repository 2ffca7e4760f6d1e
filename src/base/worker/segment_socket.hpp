// The socket over which a node's shared memory is handed out: one request, one answer with a descriptor, the end.
//
// A unix socket of type SOCK_SEQPACKET: a request is there whole or not at all. An agent's is a file in a directory of
// its own, where nobody else can call. Without an agent it is an abstract one: no name in a file system, but whoever is
// in this network namespace may connect. Whoever serves asks the kernel who it is: processes of the same user only.
// Never blocks. Shell.
#pragma once

#include <cstdint>
#include <string>

#include "cxxrun/error.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::host {

/// What is asked for: the memory of one communicator (its nonce), by one of its ranks.
struct SegmentRequest {
  std::uint64_t key = 0;
  std::int32_t rank = 0;
  bool operator==(SegmentRequest const&) const = default;
};

/// Listens under an unguessable name: in `directory`, or as an abstract socket when that is "".
struct SegmentSocket {
  std::string name;  ///< a path that is the caller's to remove, or without the zero byte that makes it abstract
  os::UniqueFd fd;   ///< non-blocking, close-on-exec
};
[[nodiscard]] Result<SegmentSocket> listen_for_segments(std::string const& directory = "");

/// The next connection of a process of this user; none when nobody waits, and then errno tells why: EAGAIN, or what
/// accept4 ran out of. Others are closed on the way; after a few of them it is EAGAIN too, although more may wait.
[[nodiscard]] os::UniqueFd accept_same_user(int listener);

enum class SegmentInput : std::uint8_t { nothing_yet, request, gone };  ///< gone: closed, or it sent something else
[[nodiscard]] SegmentInput read_request(int connection, SegmentRequest& request);

/// Sends `segment` along. Nothing is promised: the other side may have gone.
void answer_with(int connection, int segment);
/// Sends the reason instead, cut to 200 characters.
void answer_no(int connection, std::string const& reason);

/// The client's half. `connection` is a blocking socket with timeouts. Errors: closed (nobody listens), timeout,
/// permission (the listener is another user's), io.
[[nodiscard]] Result<os::UniqueFd> connect_for_segment(std::string const& name, int timeout_ms);
[[nodiscard]] Result<void> send_request(int connection, SegmentRequest const& request);
/// Errors: refused (with the reason), closed, timeout, protocol.
[[nodiscard]] Result<os::UniqueFd> receive_segment(int connection);

}  // namespace cxxrun::host
