#include "src/comm/reduce.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "src/comm/half.hpp"

// Elements are read and written by memcpy: buffers may be unaligned (what comes from a socket), and compilers make
// plain vector loads of it. Loops carry `ivdep` instead of restrict because an output may be one of the inputs.

namespace cxxrun::comm {
namespace {

/// Accumulators of one round, on the stack: it stays in the first-level cache.
constexpr std::size_t kRoundBytes = 4096;

/// How a type is stored (Stored) and what it is calculated in (Value).
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static Value value_of(Stored stored) { return stored; }
  static Stored stored_of(Value value) { return value; }
};
struct Half {
  using Stored = std::uint16_t;
  using Value = float;
  static Value value_of(Stored stored) { return float_of_f16(stored); }
  static Stored stored_of(Value value) { return f16_of_float(value); }
};
struct Brain {
  using Stored = std::uint16_t;
  using Value = float;
  static Value value_of(Stored stored) { return float_of_bf16(stored); }
  static Stored stored_of(Value value) { return bf16_of_float(value); }
};

struct Sum {
  template <class T>
  static T of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Wraps = std::make_unsigned_t<T>;  // signed overflow is undefined
      return static_cast<T>(static_cast<Wraps>(static_cast<Wraps>(a) + static_cast<Wraps>(b)));
    } else {
      return a + b;
    }
  }
};
/// Of equal values (0 and -0) the first, of NaNs the last.
struct Min {
  template <class T>
  static T of(T a, T b) {
    return b < a || b != b ? b : a;
  }
};
struct Max {
  template <class T>
  static T of(T a, T b) {
    return b > a || b != b ? b : a;
  }
};

template <class F>
typename F::Value load(std::byte const* from, std::size_t i) {
  typename F::Stored stored;
  std::memcpy(&stored, from + i * sizeof(stored), sizeof(stored));
  return F::value_of(stored);
}
template <class F>
void store(std::byte* to, std::size_t i, typename F::Value value) {
  typename F::Stored const stored = F::stored_of(value);
  std::memcpy(to + i * sizeof(stored), &stored, sizeof(stored));
}

template <class F, class Op>
void reduce_round(std::span<void const* const> inputs, std::span<void* const> outputs, std::size_t first,
                  std::size_t count, float scale) {
  using Value = typename F::Value;
  std::size_t const offset = first * sizeof(typename F::Stored);
  std::array<Value, kRoundBytes / sizeof(Value)> sum;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  for (std::size_t j = 0; j < inputs.size(); ++j) {
    auto const* const from = static_cast<std::byte const*>(inputs[j]) + offset;
    if (j == 0) {
      for (std::size_t i = 0; i < count; ++i) {
        sum[i] = load<F>(from, i);
      }
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        sum[i] = Op::of(sum[i], load<F>(from, i));
      }
    }
  }
  if constexpr (std::is_floating_point_v<Value>) {
    if (scale != 1.0F) {
      for (std::size_t i = 0; i < count; ++i) {
        sum[i] *= static_cast<Value>(scale);
      }
    }
  }
  for (void* const output : outputs) {
    auto* const to = static_cast<std::byte*>(output) + offset;
    for (std::size_t i = 0; i < count; ++i) {
      store<F>(to, i, sum[i]);
    }
  }
}

template <class F, class Op>
void reduce_all(std::span<void const* const> inputs, std::span<void* const> outputs, std::size_t count, float scale) {
  constexpr std::size_t kRound = kRoundBytes / sizeof(typename F::Value);
  for (std::size_t first = 0; first < count; first += kRound) {
    reduce_round<F, Op>(inputs, outputs, first, std::min(kRound, count - first), scale);
  }
}

template <class F>
void reduce_as(ReduceOp op, std::span<void const* const> inputs, std::span<void* const> outputs, std::size_t count,
               float scale) {
  switch (op) {
    case ReduceOp::sum: return reduce_all<F, Sum>(inputs, outputs, count, scale);
    case ReduceOp::min: return reduce_all<F, Min>(inputs, outputs, count, scale);
    case ReduceOp::max: return reduce_all<F, Max>(inputs, outputs, count, scale);
  }
}

}  // namespace

void reduce(DType type, ReduceOp op, std::span<void const* const> inputs, std::span<void* const> outputs,
            std::size_t count, float scale) {
  switch (type) {
    case DType::f32: return reduce_as<Plain<float>>(op, inputs, outputs, count, scale);
    case DType::f64: return reduce_as<Plain<double>>(op, inputs, outputs, count, scale);
    case DType::f16: return reduce_as<Half>(op, inputs, outputs, count, scale);
    case DType::bf16: return reduce_as<Brain>(op, inputs, outputs, count, scale);
    case DType::i32: return reduce_as<Plain<std::int32_t>>(op, inputs, outputs, count, scale);
    case DType::i64: return reduce_as<Plain<std::int64_t>>(op, inputs, outputs, count, scale);
    case DType::u8: return reduce_as<Plain<std::uint8_t>>(op, inputs, outputs, count, scale);
  }
}

void accumulate(DType type, ReduceOp op, void* to, void const* from, std::size_t count) {
  std::array<void const*, 2> const inputs{to, from};
  std::array<void*, 1> const outputs{to};
  reduce(type, op, inputs, outputs, count);
}

std::size_t wire_size(Wire wire) {
  return wire == Wire::same ? sizeof(float) : sizeof(std::uint16_t);
}

void encode(Wire wire, float const* from, std::byte* to, std::size_t count) {
  switch (wire) {
    case Wire::same:
      if (count > 0) {
        std::memcpy(to, from, count * sizeof(float));
      }
      return;
    case Wire::bf16:
      for (std::size_t i = 0; i < count; ++i) {
        store<Brain>(to, i, from[i]);
      }
      return;
    case Wire::f16:
      for (std::size_t i = 0; i < count; ++i) {
        store<Half>(to, i, from[i]);
      }
      return;
  }
}

void decode(Wire wire, std::byte const* from, float* to, std::size_t count) {
  switch (wire) {
    case Wire::same:
      if (count > 0) {
        std::memcpy(to, from, count * sizeof(float));
      }
      return;
    case Wire::bf16:
      for (std::size_t i = 0; i < count; ++i) {
        to[i] = load<Brain>(from, i);
      }
      return;
    case Wire::f16:
      for (std::size_t i = 0; i < count; ++i) {
        to[i] = load<Half>(from, i);
      }
      return;
  }
}

void accumulate_encoded(Wire wire, float* to, std::byte const* from, std::size_t count) {
  switch (wire) {
    case Wire::same:
      for (std::size_t i = 0; i < count; ++i) {
        to[i] += load<Plain<float>>(from, i);
      }
      return;
    case Wire::bf16:
      for (std::size_t i = 0; i < count; ++i) {
        to[i] += load<Brain>(from, i);
      }
      return;
    case Wire::f16:
      for (std::size_t i = 0; i < count; ++i) {
        to[i] += load<Half>(from, i);
      }
      return;
  }
}

}  // namespace cxxrun::comm
