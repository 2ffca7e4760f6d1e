// Segment: the memory that the ranks of one node share, as a descriptor and as this process sees it. Shell.
//
// A memfd: it has no name that could be left over, no limit of /dev/shm applies, and it is gone with its last holder.
// It is empty at first, can grow and cannot shrink: who has mapped it never gets SIGBUS because of somebody else.
// Under cxxrun the agent makes it (CXXRUN_SEGMENT names its socket); elsewhere one rank of the node makes it and hands
// it to its mates.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/base/os/mapping.hpp"
#include "src/base/worker/segment_socket.hpp"

namespace cxxrun::host {

/// Close-on-exec, size 0, sealed against shrinking and further seals.
[[nodiscard]] Result<os::UniqueFd> make_segment();

/// Fetches the segment of `key` (the communicator's nonce) for `rank` from the socket `name`. Blocks until the
/// deadline; `look` is called every millisecond meanwhile, and ends the wait by throwing. The answer is looked at: only
/// a segment as make_segment() makes it is taken. Errors: closed (nobody serves there any more), timeout, refused
/// (another key), permission (another user's socket), environment, protocol, io.
[[nodiscard]] Result<os::UniqueFd> fetch_segment(std::string const& name, std::uint64_t key, int rank,
                                                 TimePoint deadline, std::function<void()> const& look = {});

/// For a node without an agent: the leader listens, tells its mates the socket's name (through the store), and serves.
/// Blocks until each of `ranks` has been handed `segment`, or until `stop` (a descriptor, -1: none) can be read.
/// Strangers, other keys and other ranks are turned away and end nothing. Errors: timeout, naming the ranks that did
/// not come; io.
[[nodiscard]] Result<void> serve_segment(SegmentSocket const& socket, int segment, std::uint64_t key,
                                         std::vector<int> ranks, TimePoint deadline, int stop = -1);

/// This process's view of it. The file only grows: its first part is mapped for good; each arena is mapped when it is
/// made, at an address of its own, so that buffers are known to the mates by their offset in the file.
class SegmentMap {
 public:
  explicit SegmentMap(os::UniqueFd fd) : fd_(std::move(fd)) {}

  // Both return 0, or errno.

  /// Makes the file at least `bytes` long; any number of processes may do so at once. EFBIG: RLIMIT_FSIZE forbids it.
  [[nodiscard]] int grow(std::uint64_t bytes);
  /// Maps the next `bytes` behind what is mapped; the file must be that long.
  [[nodiscard]] int map(std::size_t bytes);

  /// End of what is mapped, and so where the next part begins.
  [[nodiscard]] std::uint64_t end() const { return end_; }
  /// Where those bytes lie; null when they are not within one part: offsets come from other processes.
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

}  // namespace cxxrun::host
