// Bytes of calls' buffers: where they are, whether they overlap, copying them.
#pragma once

#include <cstring>
#include <span>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "src/runtime/cpu/node/node_layout.hpp"

namespace cxxrun::host {

[[nodiscard]] inline std::byte const* in_of(comm::Call const& call) {
  return static_cast<std::byte const*>(call.in);
}
[[nodiscard]] inline std::byte* out_of(comm::Call const& call) {
  return static_cast<std::byte*>(call.out);
}

inline void copy_bytes(std::byte* to, std::byte const* from, std::size_t bytes) {
  if (bytes > 0 && to != from) {
    std::memcpy(to, from, bytes);
  }
}
inline void copy_bytes(std::byte* to, std::span<std::byte const> from) {
  copy_bytes(to, from.data(), from.size());
}

/// Copies to memory that other cores have read. Ordinary stores would take each cache line away from them first, one
/// after another: five times as slow as these, which go past the caches.
inline void stream_bytes(std::byte* to, std::byte const* from, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t kStep = 64;
  if (reinterpret_cast<std::uintptr_t>(to) % kStep == 0) {
    for (; bytes >= kStep; to += kStep, from += kStep, bytes -= kStep) {
      for (std::size_t i = 0; i < kStep; i += sizeof(__m128i)) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm_loadu_si128(reinterpret_cast<__m128i const*>(from + i)));
      }
    }
    _mm_sfence();
  }
#endif
  copy_bytes(to, from, bytes);
}

/// Whether mates may read `in` while this rank writes `out`: they do not overlap, or the smaller one is this rank's
/// part of the larger one, at `my_part`, which nobody else touches.
[[nodiscard]] inline bool may_read_in_place(void const* in, std::size_t in_bytes, void const* out,
                                            std::size_t out_bytes, std::size_t my_part) {
  auto const a = reinterpret_cast<std::uintptr_t>(in);
  auto const b = reinterpret_cast<std::uintptr_t>(out);
  return a + in_bytes <= b || b + out_bytes <= a || (in_bytes > out_bytes ? a + my_part == b : b + my_part == a);
}

/// Elements of a cache line pair: ranks do not write to each other's lines.
[[nodiscard]] inline std::size_t grain(DType type) {
  return kLine / size_of(type);
}

}  // namespace cxxrun::host
