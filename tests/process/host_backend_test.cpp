// Closed-form sums: element i of rank r is i % 13 + r, small enough to be exact in every type.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "src/host/node_layout.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/node_world.hpp"
#include "tests/support/ranks.hpp"

namespace cxxrun {
namespace {

using comm::Call;
using comm::Kind;
using test::NodeWorld;

constexpr std::array kTypes{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8};
constexpr std::array kOps{ReduceOp::sum, ReduceOp::min, ReduceOp::max};

template <class T>
void put(std::byte* to, std::size_t i, double value) {
  T const element = T(static_cast<float>(value));
  std::memcpy(to + i * sizeof(T), &element, sizeof(T));
}
template <class T>
double get(std::byte const* from, std::size_t i) {
  T element;
  std::memcpy(&element, from + i * sizeof(T), sizeof(T));
  return static_cast<double>(static_cast<float>(element));
}
void put(DType type, std::byte* to, std::size_t i, double value) {
  switch (type) {
    case DType::f32: return put<float>(to, i, value);
    case DType::f64: return put<double>(to, i, value);
    case DType::f16: return put<float16>(to, i, value);
    case DType::bf16: return put<bfloat16>(to, i, value);
    case DType::i32: return put<std::int32_t>(to, i, value);
    case DType::i64: return put<std::int64_t>(to, i, value);
    case DType::u8: return put<std::uint8_t>(to, i, value);
  }
}
double get(DType type, std::byte const* from, std::size_t i) {
  switch (type) {
    case DType::f32: return get<float>(from, i);
    case DType::f64: return get<double>(from, i);
    case DType::f16: return get<float16>(from, i);
    case DType::bf16: return get<bfloat16>(from, i);
    case DType::i32: return get<std::int32_t>(from, i);
    case DType::i64: return get<std::int64_t>(from, i);
    case DType::u8: return get<std::uint8_t>(from, i);
  }
  return 0;
}

double value_of(int rank, std::size_t i) {
  return static_cast<double>(i % 13) + rank;
}

double reduced(ReduceOp op, int world, std::size_t i) {
  auto const base = static_cast<double>(i % 13);
  switch (op) {
    case ReduceOp::sum: return world * base + world * (world - 1) / 2;
    case ReduceOp::min: return base;
    case ReduceOp::max: return base + world - 1;
  }
  return 0;
}

/// What element i of `rank`'s out must be; i counts over the whole buffer.
double expected(Call const& call, int rank, int world, std::size_t i) {
  std::size_t const n = call.count;
  auto const me = static_cast<std::size_t>(rank);
  switch (call.kind) {
    case Kind::all_reduce: return reduced(call.op, world, i);
    case Kind::reduce_scatter: return reduced(call.op, world, me * n + i);
    case Kind::all_gather: return value_of(static_cast<int>(i / n), i % n);
    case Kind::broadcast: return value_of(call.root, i);
    case Kind::all_to_all: return value_of(static_cast<int>(i / n), me * n + i % n);
    default: return 0;
  }
}

struct Buffers {
  std::byte* in;
  std::byte* out;
};

/// Fills, calls, compares. "" or what is wrong.
std::string attempt(host::Backend& backend, Call call, int rank, int world, Buffers buffers) {
  std::size_t const size = size_of(call.type);
  for (std::size_t i = 0; i < comm::in_bytes(call, world) / size; ++i) {
    put(call.type, buffers.in, i, value_of(rank, i));
  }
  call.in = buffers.in;
  call.out = buffers.out;
  backend.run(call);
  for (std::size_t i = 0; i < comm::out_bytes(call, world) / size; ++i) {
    double const want = expected(call, rank, world, i);
    if (get(call.type, buffers.out, i) != want) {
      return "rank " + std::to_string(rank) + " of " + std::to_string(world) + ", " + comm::describe(call) +
             ": element " + std::to_string(i) + " is " + std::to_string(get(call.type, buffers.out, i)) + ", not " +
             std::to_string(want);
    }
  }
  return "";
}

/// Every placement of the buffers: in an arena or not, in place or not; and mixed over the ranks.
std::string attempt_everywhere(host::Backend& backend, Call const& call, int rank, int world, Buffers arena) {
  std::size_t const most = std::max(comm::in_bytes(call, world), comm::out_bytes(call, world)) + 64;
  std::vector<std::byte> in(most);
  std::vector<std::byte> out(most);
  Buffers const own{in.data(), out.data()};
  std::vector<Buffers> places{arena, own, rank % 2 == 0 ? arena : own, {arena.in, own.out}, {own.in, arena.out}};
  if (call.kind == Kind::broadcast) {
    places = {{arena.in, arena.in}, {own.in, own.in}};
  } else if (call.kind != Kind::all_to_all) {
    places.push_back({arena.in, arena.in});
    places.push_back({own.in, own.in});
  }
  for (auto const& place : places) {
    if (auto wrong = attempt(backend, call, rank, world, place); !wrong.empty()) {
      return wrong + " (placement " + std::to_string(&place - places.data()) + ")";
    }
  }
  return "";
}

/// Around the borders of what travels in the slot and of a window.
std::vector<std::size_t> sizes_around(std::size_t size) {
  std::size_t const small = host::kInlineBytes / size;
  std::size_t const window = host::kPieceBytes / size;
  return {0, 1, 3, small - 1, small, small + 1, window - 1, window, window + 1, 3 * window + 17};
}

void require_all_returned(std::vector<test::RankEnd> const& ends) {
  for (auto const& end : ends) {
    CHECK(end.said == "");
    CHECK(end.status == 0);
  }
}

std::string every_call(NodeWorld const& node, int rank, std::vector<Kind> const& kinds) {
  auto const backend = node.join(rank);
  std::size_t const most = std::size_t{16} << 20;
  Buffers const arena{backend->allocate(most), backend->allocate(most)};
  for (Kind const kind : kinds) {
    for (DType const type : kTypes) {
      for (ReduceOp const op : kOps) {
        bool const reduces = kind == Kind::all_reduce || kind == Kind::reduce_scatter;
        for (std::size_t count : sizes_around(size_of(type))) {
          if (kind != Kind::all_reduce && kind != Kind::broadcast) {
            count /= static_cast<std::size_t>(node.ranks);
          }
          Call const call{.kind = kind, .type = type, .op = op, .root = node.ranks - 1, .count = count};
          if (auto wrong = attempt_everywhere(*backend, call, rank, node.ranks, arena); !wrong.empty()) {
            return wrong;
          }
        }
        if (!reduces) {
          break;
        }
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("all_reduce over ranks, sizes, types, operations and placements") {
  for (int const ranks : {2, 3, 4, 8}) {
    NodeWorld node{.ranks = ranks, .enough_cpus = ranks == 2};
    require_all_returned(test::run_ranks(ranks, [&](int rank) { return every_call(node, rank, {Kind::all_reduce}); }));
  }
}

TEST_CASE("the other collectives over ranks, sizes, types and placements") {
  for (int const ranks : {2, 3, 5}) {
    NodeWorld node{.ranks = ranks, .enough_cpus = ranks == 2};
    require_all_returned(test::run_ranks(ranks, [&](int rank) {
      return every_call(node, rank,
                        {Kind::reduce_scatter, Kind::all_gather, Kind::broadcast, Kind::all_to_all, Kind::barrier});
    }));
  }
}

}  // namespace cxxrun
