// Collectives among the ranks of one node, with results in closed form.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "src/host/node_layout.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/closed_form.hpp"
#include "tests/support/node_world.hpp"
#include "tests/support/ranks.hpp"

namespace cxxrun {
namespace {

using comm::Call;
using comm::Kind;
using test::NodeWorld;

constexpr std::array kTypes{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8};
constexpr std::array kOps{ReduceOp::sum, ReduceOp::min, ReduceOp::max};

struct Buffers {
  std::byte* in;
  std::byte* out;
};

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
    if (auto wrong = test::attempt(backend, call, rank, world, place.in, place.out); !wrong.empty()) {
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
