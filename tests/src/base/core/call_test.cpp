#include "src/base/core/call.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/catch.hpp"

using cxxrun::DType;
using cxxrun::ReduceOp;
using cxxrun::Wire;
using namespace cxxrun::comm;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kRank = 2;
constexpr int kWorld = 4;
std::array<std::byte, 4096> memory;

Call call_of(Kind kind, DType type = DType::f32, std::size_t count = 25) {
  Call call;
  call.kind = kind;
  call.type = type;
  call.count = count;
  call.in = memory.data();
  call.out = memory.data() + memory.size() / 2;
  return call;
}

/// `call` with one member changed.
template <class T>
Call with(Call call, T Call::*member, T value) {
  call.*member = value;
  return call;
}

bool mentions(std::optional<std::string> const& sentence, std::string const& part) {
  INFO(sentence.value_or("(nothing)"));
  CHECK((sentence && sentence->find(part) != std::string::npos));
  return sentence && sentence->find(part) != std::string::npos;
}

constexpr std::array<Kind, 7> kKinds{Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather, Kind::broadcast,
                                     Kind::all_to_all, Kind::barrier,        Kind::allocate};

}  // namespace

TEST_CASE("call: bytes of the buffers", "[unit]") {
  auto const bytes = [](Kind kind) {
    return std::pair(in_bytes(call_of(kind), kWorld), out_bytes(call_of(kind), kWorld));
  };
  CHECK(bytes(Kind::all_reduce) == std::pair<std::size_t, std::size_t>(100, 100));
  CHECK(bytes(Kind::reduce_scatter) == std::pair<std::size_t, std::size_t>(400, 100));
  CHECK(bytes(Kind::all_gather) == std::pair<std::size_t, std::size_t>(100, 400));
  CHECK(bytes(Kind::broadcast) == std::pair<std::size_t, std::size_t>(100, 100));
  CHECK(bytes(Kind::all_to_all) == std::pair<std::size_t, std::size_t>(400, 400));
  CHECK(bytes(Kind::barrier) == std::pair<std::size_t, std::size_t>(0, 0));
  CHECK(bytes(Kind::allocate) == std::pair<std::size_t, std::size_t>(0, 0));
  CHECK(in_bytes(call_of(Kind::all_reduce, DType::bf16, 3'000'000'000), kWorld) == 6'000'000'000);
}

TEST_CASE("call: in words", "[unit]") {
  CHECK(describe(call_of(Kind::all_reduce)) == "all_reduce of 25 f32, sum");
  CHECK(describe(with(call_of(Kind::reduce_scatter, DType::u8), &Call::op, ReduceOp::max)) ==
        "reduce_scatter of 25 u8, max");
  CHECK(describe(call_of(Kind::all_gather, DType::i64, 1)) == "all_gather of 1 i64");
  CHECK(describe(with(call_of(Kind::broadcast), &Call::root, 3)) == "broadcast of 25 f32 from rank 3");
  CHECK(describe(call_of(Kind::all_to_all)) == "all_to_all of 25 f32");
  CHECK(describe(call_of(Kind::barrier)) == "barrier");
  CHECK(describe(call_of(Kind::allocate, DType::u8, 4096)) == "arena of 4096 bytes");
  auto const mean = with(with(call_of(Kind::all_reduce), &Call::scale, 0.1F), &Call::wire, Wire::bf16);
  CHECK(describe(mean) == "all_reduce of 25 f32, sum, wire bf16, scale 0.1");
  CHECK(describe(with(call_of(Kind::all_reduce), &Call::scale, std::nextafter(0.1F, 1.0F))) !=
        describe(with(call_of(Kind::all_reduce), &Call::scale, 0.1F)));
}

TEST_CASE("call: numbers from another version have a name, too", "[unit]") {
  CHECK(describe(call_of(static_cast<Kind>(99))) == "number 99 of 25 f32");
  CHECK(describe(call_of(Kind::all_reduce, static_cast<DType>(99))) == "all_reduce of 25 unknown, sum");
}

TEST_CASE("call: ranks agree about equal calls, wherever their buffers are", "[unit]") {
  for (auto const kind : kKinds) {
    auto other = call_of(kind);
    other.in = other.out = nullptr;
    CHECK_FALSE(disagreement(0, call_of(kind), 1, other));
  }
  auto const undefined = with(call_of(Kind::all_reduce), &Call::scale, NAN);  // not equal to itself
  CHECK_FALSE(disagreement(0, undefined, 1, undefined));
}

TEST_CASE("call: both ranks of a disagreement say the same", "[unit]") {
  auto const sum = call_of(Kind::all_reduce);
  auto const other = call_of(Kind::barrier);
  CHECK(disagreement(3, other, 1, sum) == disagreement(1, sum, 3, other));
  CHECK(disagreement(3, other, 1, sum)->find("rank 1 called all_reduce of 25 f32, sum; rank 3 called") !=
        std::string::npos);
}

TEST_CASE("call: a disagreement names both ranks, both calls and the first difference", "[unit]") {
  auto const sum = call_of(Kind::all_reduce);
  CHECK(disagreement(0, sum, 3, with(sum, &Call::count, std::size_t{26})) ==
        "ranks disagree about the count: rank 0 called all_reduce of 25 f32, sum; rank 3 called all_reduce of 26 f32, "
        "sum");
  CHECK(mentions(disagreement(0, sum, 1, call_of(Kind::barrier)), "about the operation: "));
  CHECK(mentions(disagreement(0, sum, 1, with(sum, &Call::type, DType::i32)), "about the type: "));
  CHECK(mentions(disagreement(0, sum, 1, with(sum, &Call::op, ReduceOp::min)), "about how to reduce: "));
  CHECK(mentions(disagreement(0, sum, 1, with(sum, &Call::wire, Wire::f16)), "about the wire format: "));
  CHECK(mentions(disagreement(0, sum, 1, with(sum, &Call::scale, 0.5F)), "about the scale: "));
  auto const from0 = call_of(Kind::broadcast);
  CHECK(mentions(disagreement(0, from0, 1, with(from0, &Call::root, 1)), "about the root: "));
  auto const arena = call_of(Kind::allocate);
  CHECK(mentions(disagreement(0, arena, 1, with(arena, &Call::count, std::size_t{26})), "about the size: "));
  auto const unlike = with(with(sum, &Call::type, DType::f16), &Call::count, std::size_t{1});
  CHECK(mentions(disagreement(0, sum, 1, unlike), "about the type: "));
}

TEST_CASE("call: what a kind of call does not use is not compared", "[unit]") {
  auto const barrier = call_of(Kind::barrier);
  CHECK_FALSE(disagreement(0, barrier, 1, with(barrier, &Call::count, std::size_t{1})));
  auto const gather = call_of(Kind::all_gather);
  CHECK_FALSE(disagreement(0, gather, 1, with(gather, &Call::op, ReduceOp::max)));
  CHECK_FALSE(disagreement(0, gather, 1, with(gather, &Call::root, 1)));
}

TEST_CASE("call: what can be asked for is not refused", "[unit]") {
  for (auto const kind : kKinds) {
    for (std::size_t const count : {0U, 1U, 25U}) {
      CHECK_FALSE(refusal(call_of(kind, DType::f16, count), kRank, kWorld));
    }
  }
  auto nothing = call_of(Kind::all_reduce, DType::f32, 0);
  nothing.in = nothing.out = nullptr;
  CHECK_FALSE(refusal(nothing, kRank, kWorld));
  for (auto const type : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    CHECK_FALSE(refusal(with(call_of(Kind::all_reduce, type), &Call::scale, 0.5F), kRank, kWorld));
  }
}

TEST_CASE("call: a scale on integers is refused", "[unit]") {
  for (auto const type : {DType::i32, DType::i64, DType::u8}) {
    for (auto const kind : {Kind::all_reduce, Kind::reduce_scatter}) {
      CHECK(
          mentions(refusal(with(call_of(kind, type), &Call::scale, 0.5F), kRank, kWorld), "only floating point types"));
    }
  }
}

TEST_CASE("call: a root outside the world is refused", "[unit]") {
  for (int const root : {-1, kWorld}) {
    CHECK(mentions(refusal(with(call_of(Kind::broadcast), &Call::root, root), kRank, kWorld), "the ranks are 0 to 3"));
  }
  CHECK_FALSE(refusal(with(call_of(Kind::broadcast), &Call::root, kWorld - 1), kRank, kWorld));
}

TEST_CASE("call: sizes that overflow are refused, whatever they wrap around to", "[unit]") {
  for (auto const kind : kKinds) {
    if (kind != Kind::barrier) {
      CHECK(mentions(refusal(call_of(kind, DType::f64, SIZE_MAX), kRank, kWorld), "more than memory"));
    }
  }
  constexpr std::size_t kQuarter = SIZE_MAX / 4 + 1;  // times four ranks, times f32: zero
  CHECK(mentions(refusal(call_of(Kind::all_gather, DType::u8, kQuarter), kRank, kWorld),
                 "over 4 ranks is more than memory"));
  CHECK(mentions(refusal(call_of(Kind::all_reduce, DType::f32, kQuarter), kRank, kWorld), "more than memory"));
  constexpr std::size_t kHuge = 3'000'000'000;  // more elements than 32 bits count: fine
  CHECK_FALSE(
      refusal(with<void*>(call_of(Kind::broadcast, DType::f64, kHuge), &Call::out, memory.data()), kRank, kWorld));
}

TEST_CASE("call: numbers that mean nothing are refused", "[unit]") {
  CHECK(mentions(refusal(call_of(static_cast<Kind>(8)), kRank, kWorld), "no operation number 8"));
  CHECK(mentions(refusal(call_of(Kind::all_gather, static_cast<DType>(7)), kRank, kWorld), "type number 7"));
  CHECK(mentions(refusal(with(call_of(Kind::all_reduce), &Call::op, static_cast<ReduceOp>(3)), kRank, kWorld),
                 "number 3"));
  CHECK(
      mentions(refusal(with(call_of(Kind::all_reduce), &Call::wire, static_cast<Wire>(3)), kRank, kWorld), "number 3"));
}

TEST_CASE("call: null and overlapping buffers are refused", "[unit]") {
  auto const sum = call_of(Kind::all_reduce);
  CHECK(mentions(refusal(with<void*>(sum, &Call::out, nullptr), kRank, kWorld), "a buffer is null"));
  CHECK(mentions(refusal(with<void const*>(sum, &Call::in, nullptr), kRank, kWorld), "a buffer is null"));
  CHECK_FALSE(refusal(with<void const*>(call_of(Kind::broadcast), &Call::in, nullptr), kRank, kWorld));
  CHECK_FALSE(refusal(with<void*>(sum, &Call::out, memory.data()), kRank, kWorld));        // in place
  CHECK_FALSE(refusal(with<void*>(sum, &Call::out, memory.data() + 100), kRank, kWorld));  // right behind it
  CHECK(mentions(refusal(with<void*>(sum, &Call::out, memory.data() + 96), kRank, kWorld), "overlap"));
  auto const swap = call_of(Kind::all_to_all);
  CHECK(mentions(refusal(with<void*>(swap, &Call::out, memory.data()), kRank, kWorld), "two buffers"));
  CHECK(mentions(refusal(with<void*>(swap, &Call::out, memory.data() + 396), kRank, kWorld), "two buffers"));
  CHECK_FALSE(refusal(with<void*>(swap, &Call::out, memory.data() + 400), kRank, kWorld));
}

TEST_CASE("call: the smaller buffer of reduce_scatter and all_gather begins with the larger, or is the rank's own part",
          "[unit]") {
  constexpr std::ptrdiff_t kPart = 100;
  constexpr std::ptrdiff_t kFree = kWorld * kPart;
  std::vector<std::byte> bytes(2 * kFree);
  std::byte* const larger = bytes.data() + kPart;
  for (std::ptrdiff_t at = -kPart; at <= kFree; at += 4) {
    auto scatter = call_of(Kind::reduce_scatter);
    scatter.in = larger;
    scatter.out = larger + at;
    auto gather = call_of(Kind::all_gather);
    gather.in = larger + at;
    gather.out = larger;
    bool const fine = at == -kPart || at == 0 || at == kRank * kPart || at == kFree;
    INFO("at byte " << at);
    CHECK(refusal(scatter, kRank, kWorld).has_value() == !fine);
    CHECK(refusal(gather, kRank, kWorld).has_value() == !fine);
    if (!fine) {
      CHECK(mentions(refusal(scatter, kRank, kWorld), "out may be in, or this rank's part of it"));
      CHECK(mentions(refusal(gather, kRank, kWorld), "in may be out, or this rank's part of it"));
    }
  }
}

TEST_CASE("call: its fields bring it back", "[unit]") {
  Call call;
  call.kind = Kind::broadcast;
  call.type = DType::bf16;
  call.op = ReduceOp::max;
  call.wire = Wire::f16;
  call.root = 4;
  call.count = std::size_t{1} << 40U;
  call.scale = 0.1F;
  auto const back = call_of(fields_of(call));
  CHECK_FALSE(disagreement(0, call, 1, back));
  CHECK(back.op == call.op);
  CHECK(back.wire == call.wire);
}
