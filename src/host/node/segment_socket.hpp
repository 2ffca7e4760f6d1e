// The socket over which a node's shared memory is handed out: one request, one answer with a descriptor, the end.
//
// An abstract unix socket of type SOCK_SEQPACKET: no name in a file system, and a request is there whole or not at
// all. Abstract names belong to a network namespace: processes in different ones cannot meet here. Anybody may
// connect, so whoever serves asks the kernel who it is: processes of the same user only. Never blocks. Shell.
#pragma once

#include <cstdint>
#include <string>

#include "cxxrun/error.hpp"
#include "src/os/fd.hpp"

namespace cxxrun::host {

/// What is asked for: the memory of one communicator (its nonce), by one of its ranks.
struct SegmentRequest {
  std::uint64_t key = 0;
  std::int32_t rank = 0;
  bool operator==(SegmentRequest const&) const = default;
};

/// Listens under an unguessable name.
struct SegmentSocket {
  std::string name;  ///< without the zero byte that makes it abstract
  os::UniqueFd fd;   ///< non-blocking, close-on-exec
};
[[nodiscard]] Result<SegmentSocket> listen_for_segments();

/// The next connection of a process of this user (others are closed on the way); none when nobody waits, and then
/// errno tells why: EAGAIN, or what accept4 ran out of.
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
