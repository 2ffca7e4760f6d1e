// Small integers as elements of any type; sums over a few ranks are exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "cxxrun/dtype.hpp"

namespace cxxrun::test {

/// A number that depends on all arguments, evenly distributed.
inline std::uint64_t mixed(std::uint64_t a, std::uint64_t b, int c, std::uint64_t d = 0) {
  std::uint64_t z = a;
  for (std::uint64_t const word : {b, static_cast<std::uint64_t>(c), d}) {
    z = (z ^ word) * 0x9e3779b97f4a7c15;
    z ^= z >> 29U;
  }
  return z * 0xbf58476d1ce4e5b9 >> 32U;
}

/// 0 to 4: the value of rank `rank` at `at`.
inline double small(std::uint64_t salt, int rank, std::size_t at) {
  return static_cast<double>(mixed(salt, at, rank) % 5);
}

inline bool is_floating(DType type) {
  return type <= DType::bf16;
}

template <class Body>
auto with_element(DType type, void* data, std::size_t at, Body const& body) {
  switch (type) {
    case DType::f32: return body(static_cast<float*>(data)[at]);
    case DType::f64: return body(static_cast<double*>(data)[at]);
    case DType::f16: return body(static_cast<float16*>(data)[at]);
    case DType::bf16: return body(static_cast<bfloat16*>(data)[at]);
    case DType::i32: return body(static_cast<std::int32_t*>(data)[at]);
    case DType::i64: return body(static_cast<std::int64_t*>(data)[at]);
    default: return body(static_cast<std::uint8_t*>(data)[at]);
  }
}

inline void set_number(DType type, void* data, std::size_t at, double number) {
  with_element(type, data, at, [number]<class T>(T& element) {
    if constexpr (sizeof(T) == 2) {
      element = T(static_cast<float>(number));
    } else {
      element = static_cast<T>(number);
    }
  });
}

inline double number_at(DType type, void const* data, std::size_t at) {
  return with_element(type, const_cast<void*>(data), at, []<class T>(T& element) {
    if constexpr (sizeof(T) == 2) {
      return static_cast<double>(static_cast<float>(element));
    } else {
      return static_cast<double>(element);
    }
  });
}

inline void require(bool holds, std::string const& what) {
  if (!holds) {
    throw std::runtime_error("wrong: " + what);
  }
}

}  // namespace cxxrun::test
