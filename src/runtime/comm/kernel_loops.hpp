// The loops behind a table of Kernels, compiled once per instruction set. Pure.
//
// `Isa` is a type in the including file's unnamed namespace, with the width of a vector. That makes every function here
// local to the file. A standard library function that is not inlined would be shared by all files, compiled for
// whichever CPU the linker picks; so none is used here.
//
// All inputs of a block are read into registers before an output is written: an output may be one of the inputs, and
// every element is read once. Memory is accessed by memcpy, because buffers from a socket may be unaligned; compilers
// turn that into plain vector loads.
#pragma once

#include <cstring>
#include <iterator>
#include <type_traits>

#include "src/runtime/comm/half.hpp"
#include "src/runtime/comm/kernels.hpp"

namespace cxxrun::comm::loops {

/// Vectors per block: enough independent additions, few enough to stay in registers.
constexpr std::size_t kVectors = 4;

/// Integers are added as unsigned numbers (see table()), which wrap around.
struct Sum {
  template <class T>
  [[gnu::always_inline]] static T of(T a, T b) {
    return static_cast<T>(a + b);
  }
};
/// Of equal values (0 and -0) returns the first, of NaNs the last. `|`, because not every compiler has || for vectors.
struct Min {
  template <class T>
  [[gnu::always_inline]] static T of(T a, T b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};
struct Max {
  template <class T>
  [[gnu::always_inline]] static T of(T a, T b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};

/// A codec: the stored type, the Value to calculate in, and the conversions between them, N elements at a time.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  template <std::size_t N>
  [[gnu::always_inline]] static Vector<T, N> value_of(Vector<T, N> stored) {
    return stored;
  }
  template <std::size_t N>
  [[gnu::always_inline]] static Vector<T, N> stored_of(Vector<T, N> value) {
    return value;
  }
};
/// L: Lanes, or faster ones for an instruction set.
template <template <std::size_t> class L>
struct Bf16 {
  using Stored = std::uint16_t;
  using Value = float;
  template <std::size_t N>
  [[gnu::always_inline]] static Vector<float, N> value_of(Vector<Stored, N> stored) {
    return float_of_bf16<L<N>>(stored);
  }
  template <std::size_t N>
  [[gnu::always_inline]] static Vector<Stored, N> stored_of(Vector<float, N> value) {
    return bf16_of_float<L<N>>(value);
  }
};
struct F16 {
  using Stored = std::uint16_t;
  using Value = float;
  template <std::size_t N>
  [[gnu::always_inline]] static Vector<float, N> value_of(Vector<Stored, N> stored) {
    return float_of_f16<Lanes<N>>(stored);
  }
  template <std::size_t N>
  [[gnu::always_inline]] static Vector<Stored, N> stored_of(Vector<float, N> value) {
    return f16_of_float<Lanes<N>>(value);
  }
};

/// K vectors of N elements at once, as values.
template <class Codec, std::size_t N, std::size_t K>
struct Block {
  using Stored = Vector<typename Codec::Stored, N>;
  using Value = Vector<typename Codec::Value, N>;
  static constexpr std::size_t kElements = N * K;
  Value values[K];

  [[gnu::always_inline]] static Value read(std::byte const* from) {
    Stored stored;
    std::memcpy(&stored, from, sizeof(stored));
    return Codec::template value_of<N>(stored);
  }
  [[gnu::always_inline]] void load(std::byte const* from) {
#pragma GCC unroll 8
    for (std::size_t k = 0; k < K; ++k) {
      values[k] = read(from + k * sizeof(Stored));
    }
  }
  template <class Op>
  [[gnu::always_inline]] void fold(std::byte const* from) {
#pragma GCC unroll 8
    for (std::size_t k = 0; k < K; ++k) {
      values[k] = Op::of(values[k], read(from + k * sizeof(Stored)));
    }
  }
  [[gnu::always_inline]] void scale(typename Codec::Value factor) {
#pragma GCC unroll 8
    for (std::size_t k = 0; k < K; ++k) {
      values[k] = static_cast<Value>(values[k] * factor);
    }
  }
  /// Converts once and writes to every output.
  [[gnu::always_inline]] void store(void* const* outputs, std::size_t output_count, std::size_t offset) const {
    Stored stored[K];
#pragma GCC unroll 8
    for (std::size_t k = 0; k < K; ++k) {
      stored[k] = Codec::template stored_of<N>(values[k]);
    }
    for (std::size_t j = 0; j < output_count; ++j) {
      auto* const to = static_cast<std::byte*>(outputs[j]) + offset;
#pragma GCC unroll 8
      for (std::size_t k = 0; k < K; ++k) {
        std::memcpy(to + k * sizeof(Stored), &stored[k], sizeof(Stored));
      }
    }
  }
  [[gnu::always_inline]] void store(std::byte* to) const {
    void* const output = to;
    store(&output, 1, 0);
  }
};

/// Calls step.template at<Block>(first element) for all elements: whole blocks, then single vectors, then single
/// elements.
template <class Isa, class Codec, class Step>
[[gnu::always_inline]] inline void for_all(std::size_t count, Step const& step) {
  constexpr std::size_t kLanes = Isa::kBytes / sizeof(typename Codec::Value);
  using Whole = Block<Codec, kLanes, kVectors>;
  std::size_t i = 0;
  for (; count - i >= Whole::kElements; i += Whole::kElements) {
    step.template at<Whole>(i);
  }
  for (; count - i >= kLanes; i += kLanes) {
    step.template at<Block<Codec, kLanes, 1>>(i);
  }
  for (; i < count; ++i) {
    step.template at<Block<Codec, 1, 1>>(i);
  }
}

template <class Codec, class Op>
struct ReduceStep {
  Reduction work;
  bool scaled = std::is_floating_point_v<typename Codec::Value> && work.scale != 1.0F;

  template <class B>
  [[gnu::always_inline]] void at(std::size_t i) const {
    std::size_t const offset = i * sizeof(typename Codec::Stored);
    B block;
    block.load(static_cast<std::byte const*>(work.inputs[0]) + offset);
    for (std::size_t j = 1; j < work.input_count; ++j) {
      block.template fold<Op>(static_cast<std::byte const*>(work.inputs[j]) + offset);
    }
    if (scaled) {
      block.scale(static_cast<typename Codec::Value>(work.scale));
    }
    block.store(work.outputs, work.output_count, offset);
  }
};
template <class Isa, class Codec, class Op>
void reduce(Reduction const& work) {
  for_all<Isa, Codec>(work.count, ReduceStep<Codec, Op>{work});
}

/// The Block of f32 that corresponds to a Block of Codec.
template <class B>
struct FloatsOf;
template <class Codec, std::size_t N, std::size_t K>
struct FloatsOf<Block<Codec, N, K>> {
  using type = Block<Plain<float>, N, K>;
};

template <class Codec>
struct EncodeStep {
  float const* from;
  std::byte* to;
  template <class B>
  [[gnu::always_inline]] void at(std::size_t i) const {
    typename FloatsOf<B>::type floats;
    floats.load(reinterpret_cast<std::byte const*>(from + i));
    B block;
    std::memcpy(block.values, floats.values, sizeof(block.values));
    block.store(to + i * sizeof(typename Codec::Stored));
  }
};
template <class Isa, class Codec>
void encode(float const* from, std::byte* to, std::size_t count) {
  for_all<Isa, Codec>(count, EncodeStep<Codec>{from, to});
}

/// to = from, or to += from.
template <class Codec, bool kAdd>
struct DecodeStep {
  std::byte const* from;
  float* to;
  template <class B>
  [[gnu::always_inline]] void at(std::size_t i) const {
    B block;
    block.load(from + i * sizeof(typename Codec::Stored));
    typename FloatsOf<B>::type floats;
    std::memcpy(floats.values, block.values, sizeof(block.values));
    if constexpr (kAdd) {
      auto const added = floats;
      floats.load(reinterpret_cast<std::byte const*>(to + i));
      for (std::size_t k = 0; k < std::size(floats.values); ++k) {
        floats.values[k] = Sum::of(floats.values[k], added.values[k]);
      }
    }
    floats.store(reinterpret_cast<std::byte*>(to + i));
  }
};
template <class Isa, class Codec, bool kAdd>
void decode(std::byte const* from, float* to, std::size_t count) {
  for_all<Isa, Codec>(count, DecodeStep<Codec, kAdd>{from, to});
}

/// The table; Half and Brain are the codecs of f16 and bf16.
template <class Isa, class Half, class Brain>
constexpr Kernels table() {
  using F32 = Plain<float>;
  using F64 = Plain<double>;
  using I32 = Plain<std::int32_t>;
  using I64 = Plain<std::int64_t>;
  using U8 = Plain<std::uint8_t>;
  return {{{reduce<Isa, F32, Sum>, reduce<Isa, F32, Min>, reduce<Isa, F32, Max>},
           {reduce<Isa, F64, Sum>, reduce<Isa, F64, Min>, reduce<Isa, F64, Max>},
           {reduce<Isa, Half, Sum>, reduce<Isa, Half, Min>, reduce<Isa, Half, Max>},
           {reduce<Isa, Brain, Sum>, reduce<Isa, Brain, Min>, reduce<Isa, Brain, Max>},
           {reduce<Isa, Plain<std::uint32_t>, Sum>, reduce<Isa, I32, Min>, reduce<Isa, I32, Max>},
           {reduce<Isa, Plain<std::uint64_t>, Sum>, reduce<Isa, I64, Min>, reduce<Isa, I64, Max>},
           {reduce<Isa, U8, Sum>, reduce<Isa, U8, Min>, reduce<Isa, U8, Max>}},
          {encode<Isa, F32>, encode<Isa, Brain>, encode<Isa, Half>},
          {decode<Isa, F32, false>, decode<Isa, Brain, false>, decode<Isa, Half, false>},
          {decode<Isa, F32, true>, decode<Isa, Brain, true>, decode<Isa, Half, true>}};
}

}  // namespace cxxrun::comm::loops
