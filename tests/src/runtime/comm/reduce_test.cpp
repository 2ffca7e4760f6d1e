#include "src/runtime/comm/reduce.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "src/runtime/comm/kernels.hpp"
#include "src/runtime/comm/node_map.hpp"
#include "tests/support/catch.hpp"

using cxxrun::bfloat16;
using cxxrun::DType;
using cxxrun::dtype_of;
using cxxrun::float16;
using cxxrun::ReduceOp;
using cxxrun::Wire;
using namespace cxxrun::comm;  // NOLINT(google-build-using-namespace)

namespace {

/// to[i] = op(to[i], from[i]).
void accumulate(DType type, ReduceOp op, void* to, void const* from, std::size_t count) {
  std::array<void const*, 2> const inputs{to, from};
  reduce(type, op, inputs, std::span(&to, 1), count);
}

constexpr std::array<ReduceOp, 3> kOps{ReduceOp::sum, ReduceOp::min, ReduceOp::max};
constexpr std::array<std::size_t, 13> kCounts{0, 1, 2, 3, 4, 7, 8, 9, 15, 31, 33, 129, 2051};

/// The tables that this CPU can execute.
std::vector<Kernels const*> tables() {
  std::vector<Kernels const*> all{&portable_kernels()};
  if (&kernels() != &portable_kernels()) {
    all.push_back(&kernels());
  }
  return all;
}

std::mt19937_64& dice() {
  static std::mt19937_64 engine(1);
  return engine;
}

/// Random bits: with NaNs, infinities, subnormals, and integers that overflow.
template <class T>
std::vector<T> noise(std::size_t count) {
  std::vector<T> values(count);
  for (auto& value : values) {
    auto const bits = dice()();
    std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
  }
  return values;
}

/// The type in which an element is calculated.
template <class T>
struct Value {
  using type = T;
};
template <>
struct Value<float16> {
  using type = float;
};
template <>
struct Value<bfloat16> {
  using type = float;
};

template <class V>
V combined(ReduceOp op, V a, V b) {
  if (op == ReduceOp::sum) {
    if constexpr (std::is_integral_v<V>) {
      return static_cast<V>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    } else {
      return a + b;
    }
  }
  if constexpr (std::is_floating_point_v<V>) {
    if (std::isnan(a) || std::isnan(b)) {
      return std::isnan(b) ? b : a;
    }
  }
  return (op == ReduceOp::min ? b < a : b > a) ? b : a;
}

template <class T>
T reference(ReduceOp op, std::vector<std::vector<T>> const& inputs, std::size_t i, float scale) {
  using V = typename Value<T>::type;
  auto result = static_cast<V>(inputs[0][i]);
  for (std::size_t j = 1; j < inputs.size(); ++j) {
    result = combined(op, result, static_cast<V>(inputs[j][i]));
  }
  if (scale != 1.0F) {
    result = static_cast<V>(result * static_cast<V>(scale));
  }
  return static_cast<T>(result);
}

template <class T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    return std::isnan(static_cast<typename Value<T>::type>(value));
  }
}

/// Equal bits; any NaN equals any NaN.
template <class T>
bool same(T a, T b) {
  return (is_nan(a) && is_nan(b)) || std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
void run(Kernels const& table, ReduceOp op, std::vector<void const*> const& inputs, std::vector<void*> const& outputs,
         std::size_t count, float scale) {
  auto const kernel = table.reduce[static_cast<std::size_t>(dtype_of<T>)][static_cast<std::size_t>(op)];
  kernel({inputs.data(), inputs.size(), outputs.data(), outputs.size(), count, scale});
}

/// Elements `skew` bytes behind an aligned address, with guards in front and behind.
template <class T>
class Buffer {
 public:
  Buffer(std::vector<T> const& values, std::size_t skew) : bytes_(values.size() * sizeof(T) + 64 + skew, kGuard) {
    first_ = 32 + skew;
    count_ = values.size();
    if (count_ > 0) {
      std::memcpy(data(), values.data(), count_ * sizeof(T));
    }
  }
  [[nodiscard]] std::byte* data() { return bytes_.data() + first_; }
  [[nodiscard]] T at(std::size_t i) const {
    T value;
    std::memcpy(static_cast<void*>(&value), bytes_.data() + first_ + i * sizeof(T), sizeof(T));
    return value;
  }
  [[nodiscard]] bool guarded() const {
    bool whole = true;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      whole = whole && ((i >= first_ && i < first_ + count_ * sizeof(T)) || bytes_[i] == kGuard);
    }
    return whole;
  }

 private:
  static constexpr std::byte kGuard{0x5a};
  std::vector<std::byte> bytes_;
  std::size_t first_;
  std::size_t count_;
};

/// `arity` inputs; outputs are the last input, the first one and a separate buffer.
template <class T>
std::size_t wrong_elements(Kernels const& table, ReduceOp op, std::size_t arity, std::size_t count, float scale,
                           std::size_t skew) {
  std::vector<std::vector<T>> values;
  std::vector<Buffer<T>> buffers;
  for (std::size_t j = 0; j <= arity; ++j) {
    values.push_back(noise<T>(count));
    buffers.emplace_back(values.back(), skew);
  }
  values.pop_back();
  std::vector<void const*> inputs;
  for (std::size_t j = 0; j < arity; ++j) {
    inputs.push_back(buffers[j].data());
  }
  std::vector<void*> outputs{buffers[arity].data(), buffers[arity - 1].data()};
  if (arity > 1) {
    outputs.push_back(buffers[0].data());
  }
  run<T>(table, op, inputs, outputs, count, scale);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    bool const right = same(buffers[arity].at(i), reference(op, values, i, scale));
    wrong += right ? 0 : 1;
  }
  for (auto const& buffer : buffers) {
    wrong += buffer.guarded() ? 0 : 1;
  }
  for (void* const output : outputs) {  // all outputs have the same bits, NaNs too
    wrong += count == 0 || std::memcmp(output, outputs[0], count * sizeof(T)) == 0 ? 0 : 1;
  }
  for (std::size_t j = 1; j + 1 < arity; ++j) {  // inputs that are no output stay as they are
    wrong += count == 0 || std::memcmp(buffers[j].data(), values[j].data(), count * sizeof(T)) == 0 ? 0 : 1;
  }
  return wrong;
}

}  // namespace

TEST_CASE("reduce: sums of three, into two outputs, scaled", "[unit]") {
  std::vector<float> a{1, 2, 3};
  std::vector<float> const b{10, 20, 30};
  std::vector<float> c{100, 200, 300};
  std::array<void const*, 3> const inputs{a.data(), b.data(), c.data()};
  std::array<void*, 2> const outputs{c.data(), a.data()};
  reduce(DType::f32, ReduceOp::sum, inputs, outputs, 3, 0.5F);
  CHECK(a == std::vector<float>{55.5F, 111, 166.5F});
  CHECK(c == a);
  CHECK(b == std::vector<float>{10, 20, 30});
}

TEMPLATE_TEST_CASE("reduce: any bits, any number of inputs, any length, any alignment", "[unit]", float, double,
                   float16, bfloat16, std::int32_t, std::int64_t, std::uint8_t) {
  bool const floating = !std::is_integral_v<TestType>;
  for (auto const* const table : tables()) {
    for (auto const op : kOps) {
      for (std::size_t const arity : {1U, 2U, 3U, 4U, 7U}) {
        for (auto const count : kCounts) {
          std::size_t const skew = dice()() % 33;
          INFO("op " << cxxrun::name_of(op) << ", inputs " << arity << ", count " << count << ", skew " << skew);
          REQUIRE(wrong_elements<TestType>(*table, op, arity, count, 1.0F, skew) == 0);
          REQUIRE(wrong_elements<TestType>(*table, op, arity, count, floating ? 0.3F : 1.0F, 0) == 0);
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("reduce: the same bits however the buffer is cut", "[unit]", float, double, float16, bfloat16,
                   std::int32_t, std::int64_t, std::uint8_t) {
  constexpr std::size_t kCount = 1000;
  for (auto const* const table : tables()) {
    for (auto const op : kOps) {
      auto const a = noise<TestType>(kCount);
      auto const b = noise<TestType>(kCount);
      auto const c = noise<TestType>(kCount);
      float const scale = std::is_integral_v<TestType> ? 1.0F : 1.0F / 3;
      std::vector<TestType> whole(kCount);
      run<TestType>(*table, op, {a.data(), b.data(), c.data()}, {whole.data()}, kCount, scale);
      for (int const parts : {2, 3, 7, 64, 1000}) {
        std::vector<TestType> cut(kCount);
        for (int index = 0; index < parts; ++index) {
          auto const [first, count] = part_of(kCount, index, parts);
          run<TestType>(*table, op, {a.data() + first, b.data() + first, c.data() + first}, {cut.data() + first}, count,
                        scale);
        }
        bool equal = true;
        for (std::size_t i = 0; i < kCount; ++i) {
          equal = equal && same(cut[i], whole[i]);
        }
        CHECK(equal);
      }
    }
  }
}

TEMPLATE_TEST_CASE("reduce: min and max give every rank the NaN of any rank", "[unit]", float, double, float16,
                   bfloat16) {
  auto const nan = static_cast<TestType>(std::numeric_limits<float>::quiet_NaN());
  auto const number = static_cast<TestType>(-1.0F);
  for (auto const* const table : tables()) {
    for (auto const op : {ReduceOp::min, ReduceOp::max, ReduceOp::sum}) {
      for (std::size_t whose = 0; whose < 4; ++whose) {
        std::vector<std::vector<TestType>> values(4, std::vector<TestType>(37, number));
        values[whose].assign(37, nan);
        std::vector<void const*> const inputs{values[0].data(), values[1].data(), values[2].data(), values[3].data()};
        std::vector<TestType> out(37, number);
        run<TestType>(*table, op, inputs, {out.data()}, 37, 1.0F);
        CHECK(std::all_of(out.begin(), out.end(), is_nan<TestType>));
      }
    }
  }
}

TEST_CASE("reduce: integers wrap around", "[unit]") {
  std::vector<std::int32_t> a(9, INT32_MAX);
  accumulate(DType::i32, ReduceOp::sum, a.data(), std::vector<std::int32_t>(9, 1).data(), 9);
  CHECK(a == std::vector<std::int32_t>(9, INT32_MIN));
  std::vector<std::int64_t> b(9, INT64_MIN);
  accumulate(DType::i64, ReduceOp::sum, b.data(), std::vector<std::int64_t>(9, -1).data(), 9);
  CHECK(b == std::vector<std::int64_t>(9, INT64_MAX));
  std::vector<std::uint8_t> c(99, 200);
  accumulate(DType::u8, ReduceOp::sum, c.data(), std::vector<std::uint8_t>(99, 100).data(), 99);
  CHECK(c == std::vector<std::uint8_t>(99, 44));
  accumulate(DType::u8, ReduceOp::max, c.data(), std::vector<std::uint8_t>(99, 200).data(), 99);
  CHECK(c == std::vector<std::uint8_t>(99, 200));  // unsigned: 200 is no negative number
}

TEST_CASE("reduce: sums of 16-bit floats are rounded once", "[unit]") {
  // 2048 + 1 is a tie in float16 and would go back to 2048 each time.
  std::vector<float16> const big(20, float16(2048.0F));
  std::vector<float16> const one(20, float16(1.0F));
  std::array<void const*, 4> const inputs{big.data(), one.data(), one.data(), one.data()};
  std::vector<float16> out(20);
  void* const output = out.data();
  reduce(DType::f16, ReduceOp::sum, inputs, std::span(&output, 1), 20);
  CHECK(static_cast<float>(out[0]) == 2052.0F);
  CHECK(out == std::vector<float16>(20, float16(2052.0F)));
}

TEST_CASE("reduce: the order of inputs decides the rounding", "[unit]") {
  std::vector<float> const big(20, 0x1p24F);
  std::vector<float> const one(20, 1.0F);
  std::vector<float> out(20);
  void* const output = out.data();
  std::array<void const*, 3> const big_first{big.data(), one.data(), one.data()};
  reduce(DType::f32, ReduceOp::sum, big_first, std::span(&output, 1), 20);
  CHECK(out == std::vector<float>(20, 0x1p24F));
  std::array<void const*, 3> const big_last{one.data(), one.data(), big.data()};
  reduce(DType::f32, ReduceOp::sum, big_last, std::span(&output, 1), 20);
  CHECK(out == std::vector<float>(20, 0x1p24F + 2));
}

TEST_CASE("reduce: every table gives the same bits", "[unit]") {
  constexpr std::size_t kCount = 4099;
  auto const a = noise<float16>(kCount);
  auto const b = noise<float16>(kCount);
  for (auto const op : kOps) {
    std::vector<std::vector<float16>> results;
    for (auto const* const table : tables()) {
      results.emplace_back(kCount);
      run<float16>(*table, op, {a.data(), b.data()}, {results.back().data()}, kCount, 0.7F);
    }
    bool equal = true;
    for (std::size_t i = 0; i < kCount; ++i) {
      equal = equal && same(results.front()[i], results.back()[i]);
    }
    CHECK(equal);
  }
}
