// Segment: the memory that the ranks of one node share, how it is handed out, and how a process maps it. Shell.
//
// A segment is a memfd. It has no name that could be left over, no limit of /dev/shm applies, and it is gone with its
// last holder. It starts empty and can grow but never shrink, so that a process which has mapped it gets no SIGBUS
// because of another one. Under cxxrun the agent makes it (CXXRUN_SEGMENT names its socket); without an agent the
// lowest rank of the node makes it and hands it to the other ranks there.
//
// A rank fetches it over a local socket: one request, one answer with a descriptor, end of the connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::worker {

/// Makes a segment: close-on-exec, size 0, sealed against shrinking and further seals.
[[nodiscard]] Result<os::UniqueFd> make_segment();

/// Asks for the memory of one communicator (`key`, its nonce) for one of its ranks.
struct SegmentRequest {
  std::uint64_t key = 0;
  std::int32_t rank = 0;
  bool operator==(SegmentRequest const&) const = default;
};

// The server's half. None of these blocks.

enum class SegmentInput : std::uint8_t { nothing_yet, request, gone };  ///< gone: closed, or sent something else
[[nodiscard]] SegmentInput read_segment_request(int connection, SegmentRequest& request);
/// Answers with `segment`. A caller that has gone is no error.
void send_segment(int connection, int segment);
/// Answers with the reason instead, cut to 200 characters.
void refuse_segment(int connection, std::string const& reason);

// The client's half, on a connection from os::connect_local().

[[nodiscard]] Result<void> request_segment(int connection, SegmentRequest const& request);
/// Errors: refused (with the reason), closed, timeout, protocol.
[[nodiscard]] Result<os::UniqueFd> receive_segment(int connection);

/// Fetches the segment of `key` for `rank` from the socket `name`. Blocks until the deadline; calls `look` every
/// millisecond, which may end the wait by throwing. Accepts only a memfd sealed as make_segment() does. Errors: closed
/// (nobody serves there any more), timeout, refused (another key), permission (another user's socket), environment,
/// protocol, io.
[[nodiscard]] Result<os::UniqueFd> fetch_segment(std::string const& name, std::uint64_t key, int rank,
                                                 TimePoint deadline, std::function<void()> const& look = {});

/// Serves a node without an agent: its lowest rank listens, publishes the socket's name in the store, and calls this.
/// Blocks until each of `ranks` has got `segment`, or until the descriptor `stop` (-1: none) is readable. Other users,
/// other keys and other ranks are refused and do not end it. Errors: timeout, naming the missing ranks; io.
[[nodiscard]] Result<void> serve_segment(os::LocalSocket const& socket, int segment, std::uint64_t key,
                                         std::vector<int> ranks, TimePoint deadline, int stop = -1);

/// A segment as this process has mapped it. The file only grows: its first part stays mapped for good; each arena is
/// mapped when it is made, at an address of its own. Ranks therefore name a buffer by its offset in the file.
class SegmentMap {
 public:
  explicit SegmentMap(os::UniqueFd fd) : fd_(std::move(fd)) {}

  // Both return 0, or errno.

  /// Makes the file at least `bytes` long. Several processes may call it at once. EFBIG: RLIMIT_FSIZE forbids it.
  [[nodiscard]] int grow(std::uint64_t bytes);
  /// Maps the `bytes` after the last mapped part. The file must be that long.
  [[nodiscard]] int map(std::size_t bytes);

  /// The end of the last mapped part, where the next one begins.
  [[nodiscard]] std::uint64_t end() const { return end_; }
  /// The address of those bytes; null when they are not within one part, because offsets come from other processes.
  [[nodiscard]] std::byte* at(std::uint64_t offset, std::size_t bytes) const;
  /// The offset of a buffer that lies within one part.
  [[nodiscard]] std::optional<std::uint64_t> offset_of(void const* data, std::size_t bytes) const;

 private:
  struct Part {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
    os::Mapping data;
  };
  os::UniqueFd fd_;
  std::vector<Part> parts_;
  std::uint64_t end_ = 0;
};

}  // namespace cxxrun::worker
