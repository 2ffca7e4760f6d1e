#include "src/host/node/segment_map.hpp"

#include <cerrno>
#include <limits>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>

namespace cxxrun::host {

SegmentMap::~SegmentMap() {
  for (auto const& part : parts_) {
    munmap(part.data, part.bytes);
  }
}

int SegmentMap::grow(std::uint64_t bytes) {
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) {
    return EFBIG;
  }
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY && bytes > most.rlim_cur) {
    return EFBIG;  // the kernel would send SIGXFSZ, which kills
  }
  // Not ftruncate, which would make the file shorter again when another process has grown it meanwhile.
  char const zero = 0;
  ssize_t n = 0;
  do {
    n = pwrite(fd_.get(), &zero, 1, static_cast<off_t>(bytes) - 1);
  } while (n < 0 && errno == EINTR);
  return n == 1 ? 0 : errno;
}

int SegmentMap::map(std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), static_cast<off_t>(end_));
  if (data == MAP_FAILED) {
    return errno;
  }
  parts_.push_back({end_, bytes, static_cast<std::byte*>(data)});
  end_ += bytes;
  return 0;
}

std::byte* SegmentMap::at(std::uint64_t offset, std::size_t bytes) const {
  for (auto const& part : parts_) {
    if (offset >= part.offset && offset - part.offset <= part.bytes && bytes <= part.bytes - (offset - part.offset)) {
      return part.data + (offset - part.offset);
    }
  }
  return nullptr;
}

std::optional<std::uint64_t> SegmentMap::offset_of(void const* data, std::size_t bytes) const {
  auto const address = reinterpret_cast<std::uintptr_t>(data);
  for (auto const& part : parts_) {
    auto const begin = reinterpret_cast<std::uintptr_t>(part.data);
    if (address >= begin && address - begin <= part.bytes && bytes <= part.bytes - (address - begin)) {
      return part.offset + (address - begin);
    }
  }
  return std::nullopt;
}

}  // namespace cxxrun::host
