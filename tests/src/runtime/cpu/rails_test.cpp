#include <cstring>

#include "src/runtime/comm/node_map.hpp"
#include "src/runtime/comm/reduce.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/rail.hpp"

using namespace cxxrun;
using comm::Call;
using comm::Kind;
using test::RankEnd;

namespace {

Call call_of(Kind kind, DType type, std::size_t count, ReduceOp op = ReduceOp::sum, Wire wire = Wire::same) {
  Call call;
  call.kind = kind;
  call.type = type;
  call.count = count;
  call.op = op;
  call.wire = wire;
  return call;
}

/// Small enough that sums over five nodes are exact in every type, wire formats included.
int value_of(int node, std::size_t i) {
  return static_cast<int>((i * 7 + static_cast<std::size_t>(node) * 3) % 23);
}

int reduced_value(ReduceOp op, int nodes, std::size_t i) {
  int result = value_of(0, i);
  for (int node = 1; node < nodes; ++node) {
    int const v = value_of(node, i);
    result = op == ReduceOp::sum ? result + v : (op == ReduceOp::min ? std::min(result, v) : std::max(result, v));
  }
  return result;
}

template <class T>
T number(int value) {
  if constexpr (std::is_class_v<T>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
std::vector<T> filled(std::size_t count, auto const& value) {
  std::vector<T> data(count);
  for (std::size_t i = 0; i < count; ++i) {
    data[i] = number<T>(value(i));
  }
  return data;
}

template <class T>
std::byte* bytes(std::vector<T>& data) {
  return reinterpret_cast<std::byte*>(data.data());
}

template <class T>
std::string compare(std::string const& what, std::vector<T> const& got, auto const& value) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!(got[i] == number<T>(value(i)))) {
      return what + ": wrong at " + std::to_string(i) + " of " + std::to_string(got.size()) + "; ";
    }
  }
  return "";
}

template <class T>
std::string all_reduce_is_right(host::Rails& rails, int node, int nodes, std::size_t count, ReduceOp op, Wire wire) {
  auto data = filled<T>(count, [&](std::size_t i) { return value_of(node, i); });
  rails.all_reduce(call_of(Kind::all_reduce, dtype_of<T>, count, op, wire), bytes(data), count, test::patience());
  return compare<T>("all_reduce of " + std::string(name_of(dtype_of<T>)) + " " + std::string(name_of(op)), data,
                    [&](std::size_t i) { return reduced_value(op, nodes, i); });
}

void check_all_said(std::vector<RankEnd> const& ends, std::string const& expected = "") {
  for (auto const& end : ends) {
    CHECK(end.status == 0);
    CHECK(end.said == expected);
  }
}

}  // namespace

TEST_CASE("an all-reduce between nodes is right for every type, operation and size") {
  int const nodes = GENERATE(2, 3, 5);
  check_all_said(test::run_rail(nodes, [&](int node, host::Rails& rails) {
    std::string wrong;
    for (std::size_t const count : {0UL, 1UL, 3UL, 17UL, 1000UL, 100'003UL, 1'500'001UL}) {
      for (auto const op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
        wrong += all_reduce_is_right<float>(rails, node, nodes, count, op, Wire::same);
        wrong += all_reduce_is_right<std::uint8_t>(rails, node, nodes, count, op, Wire::same);
        if (count < 1'000'000) {
          wrong += all_reduce_is_right<double>(rails, node, nodes, count, op, Wire::same);
          wrong += all_reduce_is_right<float16>(rails, node, nodes, count, op, Wire::same);
          wrong += all_reduce_is_right<bfloat16>(rails, node, nodes, count, op, Wire::same);
          wrong += all_reduce_is_right<std::int32_t>(rails, node, nodes, count, op, Wire::same);
          wrong += all_reduce_is_right<std::int64_t>(rails, node, nodes, count, op, Wire::same);
        }
      }
      wrong += all_reduce_is_right<float>(rails, node, nodes, count, ReduceOp::sum, Wire::bf16);
      wrong += all_reduce_is_right<float>(rails, node, nodes, count, ReduceOp::sum, Wire::f16);
    }
    return wrong;
  }));
}

TEST_CASE("a reduce-scatter leaves every node its part, in place and out of place") {
  int const nodes = GENERATE(2, 4);
  check_all_said(test::run_rail(nodes, [&](int node, host::Rails& rails) {
    std::string wrong;
    for (std::size_t const count : {0UL, 1UL, 1001UL, 700'001UL}) {
      for (bool const in_place : {false, true}) {
        for (auto const wire : {Wire::same, Wire::bf16}) {
          std::vector<std::vector<float>> parts;
          std::vector<std::byte const*> pointers;
          for (int to = 0; to < nodes; ++to) {
            parts.push_back(filled<float>(count, [&](std::size_t i) { return value_of(node, i) + to; }));
          }
          for (auto const& part : parts) {
            pointers.push_back(reinterpret_cast<std::byte const*>(part.data()));
          }
          std::vector<float> out(count);
          auto& result = in_place ? parts[static_cast<std::size_t>(node)] : out;
          rails.reduce_scatter(call_of(Kind::reduce_scatter, DType::f32, count, ReduceOp::sum, wire), pointers,
                               bytes(result), count, test::patience());
          wrong += compare<float>("reduce_scatter", result,
                                  [&](std::size_t i) { return reduced_value(ReduceOp::sum, nodes, i) + nodes * node; });
        }
      }
    }
    return wrong;
  }));
}

TEST_CASE("an exchange delivers parts of any size to their nodes") {
  int const nodes = GENERATE(2, 5);
  check_all_said(test::run_rail(nodes, [&](int node, host::Rails& rails) {
    std::string wrong;
    for (std::size_t const unit : {0UL, 1UL, 400'000UL}) {
      auto const size = [&](int from, int to) { return unit * static_cast<std::size_t>((from * 2 + to) % 4); };
      std::vector<std::vector<std::uint8_t>> out;
      std::vector<std::vector<std::uint8_t>> in;
      std::vector<std::span<std::byte const>> sends;
      std::vector<std::span<std::byte>> receives;
      for (int other = 0; other < nodes; ++other) {
        out.push_back(
            filled<std::uint8_t>(size(node, other), [&](std::size_t i) { return value_of(node + other, i); }));
        in.emplace_back(size(other, node));
      }
      for (std::size_t other = 0; other < out.size(); ++other) {
        sends.push_back(std::as_bytes(std::span(out[other])));
        receives.push_back(std::as_writable_bytes(std::span(in[other])));
      }
      rails.exchange(call_of(Kind::all_to_all, DType::u8, unit), sends, receives, test::patience());
      for (int other = 0; other < nodes; ++other) {
        if (other != node) {
          wrong += compare<std::uint8_t>("exchange", in[static_cast<std::size_t>(other)],
                                         [&](std::size_t i) { return value_of(node + other, i); });
        }
      }
    }
    return wrong;
  }));
}

TEST_CASE("a broadcast brings the root's bytes to every node, from any root") {
  int const nodes = GENERATE(2, 3, 5);
  check_all_said(test::run_rail(nodes, [&](int node, host::Rails& rails) {
    std::string wrong;
    for (std::size_t const count : {0UL, 1UL, 50'000UL, 3'000'001UL}) {
      for (int root = 0; root < nodes; ++root) {
        auto data = filled<std::uint8_t>(count, [&](std::size_t i) { return node == root ? value_of(root, i) : 99; });
        rails.broadcast(call_of(Kind::broadcast, DType::u8, count), std::as_writable_bytes(std::span(data)), root,
                        test::patience());
        wrong += compare<std::uint8_t>("broadcast", data, [&](std::size_t i) { return value_of(root, i); });
      }
    }
    return wrong;
  }));
}

TEST_CASE("every node has the same bits, and the next run has them too") {
  int const nodes = GENERATE(2, 3, 5);
  auto const wire = GENERATE(Wire::same, Wire::bf16, Wire::f16);
  CAPTURE(nodes, static_cast<int>(wire));
  auto const run = [&] {
    return test::run_rail(nodes, [&](int node, host::Rails& rails) {
      constexpr std::size_t kCount = 300'007;
      std::vector<float> data(kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        data[i] = 1.0F / static_cast<float>(i % 1013 + 1) - 0.1F * static_cast<float>(node);
      }
      Call call = call_of(Kind::all_reduce, DType::f32, kCount, ReduceOp::sum, wire);
      call.scale = 1.0F / static_cast<float>(nodes);
      rails.all_reduce(call, bytes(data), kCount, test::patience());
      return std::string(reinterpret_cast<char const*>(data.data()), kCount * sizeof(float));
    });
  };
  auto const first = run();
  auto const second = run();
  for (auto const& ends : {first, second}) {
    for (auto const& end : ends) {
      CHECK((end.status == 0 && end.said == first.front().said));
    }
  }
}

TEST_CASE("sums of 16-bit types are rounded once, and scaled before that") {
  check_all_said(test::run_rail(3, [](int node, host::Rails& rails) {
    std::vector<bfloat16> data(5, bfloat16(node == 0 ? 256.0F : 1.0F));  // 257 is no bf16, 258 is
    Call call = call_of(Kind::all_reduce, DType::bf16, data.size());
    rails.all_reduce(call, bytes(data), data.size(), test::patience());
    std::string wrong = data[4] == bfloat16(258.0F) ? "" : "rounded in between; ";
    std::vector<float16> small(5, float16(40'000.0F));  // the sum overflows, the mean does not
    call.type = DType::f16;
    call.scale = 0.25F;
    rails.all_reduce(call, bytes(small), small.size(), test::patience());
    return wrong + (small[0] == float16(30'000.0F) ? "" : "scaled too late");
  }));
}

TEST_CASE("with a wire format the sum is of f32 and what arrives is what the owner keeps") {
  check_all_said(test::run_rail(2, [](int node, host::Rails& rails) {
    // bf16 cannot represent 1 + 2^-10: each contribution and each result is rounded.
    std::vector<float> data(1000, node == 0 ? 256.0F : 1.0F);
    rails.all_reduce(call_of(Kind::all_reduce, DType::f32, data.size(), ReduceOp::sum, Wire::bf16), bytes(data),
                     data.size(), test::patience());
    return compare<float>("wire", data, [](std::size_t) { return 256; });
  }));
}
