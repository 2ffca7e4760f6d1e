// SegmentMap: this process's view of the memory that the ranks of a node share. Shell.
//
// The file only grows. Its first part is mapped for good; each arena is mapped when it is made, at an address of its
// own, so that buffers are known to the mates by their offset in the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "src/os/fd.hpp"

namespace cxxrun::host {

/// Both return 0, or errno.
class SegmentMap {
 public:
  explicit SegmentMap(os::UniqueFd fd) : fd_(std::move(fd)) {}
  ~SegmentMap();
  SegmentMap(SegmentMap const&) = delete;
  SegmentMap& operator=(SegmentMap const&) = delete;

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
    std::byte* data = nullptr;
  };
  os::UniqueFd fd_;
  std::vector<Part> parts_;
  std::uint64_t end_ = 0;
};

}  // namespace cxxrun::host
