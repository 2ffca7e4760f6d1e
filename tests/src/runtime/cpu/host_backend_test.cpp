// Collectives among the ranks of one node and of several, with results in closed form.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "src/runtime/cpu/node/node_exchange.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/closed_form.hpp"
#include "tests/support/node_world.hpp"
#include "tests/support/ranks.hpp"

namespace cxxrun {
namespace {

using comm::Call;
using comm::Kind;
using test::NodeWorld;

constexpr std::array kKinds{Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather,
                            Kind::broadcast,  Kind::all_to_all,     Kind::barrier};
constexpr std::array kTypes{DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8};
constexpr std::array kOps{ReduceOp::sum, ReduceOp::min, ReduceOp::max};

struct Buffers {
  std::byte* in;
  std::byte* out;
};

/// Every placement of the buffers: in an arena or not, in place or not, and mixed over the ranks.
std::string attempt_everywhere(host::Backend& backend, Call const& call, int rank, int world, Buffers arena,
                               Buffers own) {
  std::vector<Buffers> places{arena, own, rank % 2 == 0 ? arena : own, {arena.in, own.out}, {own.in, arena.out}};
  if (call.kind == Kind::broadcast) {
    places = {
        {arena.in, arena.in}, {own.in, own.in}, rank % 2 == 0 ? Buffers{own.in, own.in} : Buffers{arena.in, arena.in}};
  } else if (call.kind != Kind::all_to_all) {
    places.push_back({arena.in, arena.in});
    places.push_back({own.in, own.in});
    places.push_back(rank % 2 == 0 ? Buffers{arena.in, arena.in} : arena);
  }
  for (auto const& place : places) {
    if (auto wrong = test::attempt(backend, call, rank, world, place.in, place.out); !wrong.empty()) {
      return wrong + " (placement " + std::to_string(&place - places.data()) + ")";
    }
  }
  return "";
}

void require_all_returned(std::vector<test::RankEnd> const& ends) {
  for (auto const& end : ends) {
    CHECK(end.said == "");
    CHECK(end.status == 0);
  }
}

/// Sizes around the limits of the slot and of a window, in bytes of the larger buffer.
std::string every_call(NodeWorld& node, int rank, std::vector<DType> const& types, bool large) {
  auto const backend = node.join(rank);
  std::size_t const most = 4 * host::kPieceBytes * (large ? static_cast<std::size_t>(node.ranks()) : 1);
  Buffers const arena{backend->allocate(most), backend->allocate(most)};
  std::vector<std::byte> in(most);
  std::vector<std::byte> out(most);
  for (Kind const kind : kKinds) {
    bool const in_parts = kind != Kind::all_reduce && kind != Kind::broadcast && !large;
    for (DType const type : types) {
      std::size_t const small = host::kInlineBytes / size_of(type);
      std::size_t const window = host::kPieceBytes / size_of(type);
      for (ReduceOp const op : kOps) {
        for (std::size_t const size :
             {std::size_t{0}, std::size_t{1}, std::size_t{3}, small - 1, small, small + 1, window, 3 * window + 17}) {
          if (op != ReduceOp::sum && size > window) {
            continue;
          }
          std::size_t const count = in_parts ? size / static_cast<std::size_t>(node.ranks()) : size;
          Call const call{.kind = kind, .type = type, .op = op, .root = node.ranks() - 1, .count = count};
          auto wrong = attempt_everywhere(*backend, call, rank, node.ranks(), arena, {in.data(), out.data()});
          if (!wrong.empty()) {
            return wrong;
          }
        }
        if (kind != Kind::all_reduce && kind != Kind::reduce_scatter) {
          break;
        }
      }
    }
  }
  return "";
}

void try_world(std::vector<int> const& sizes, std::vector<DType> const& types, bool large = false) {
  NodeWorld node(sizes, sizes == std::vector{2});
  INFO("nodes: " << sizes.size() << ", ranks: " << node.ranks());
  require_all_returned(test::run_ranks(node.ranks(), [&](int rank) { return every_call(node, rank, types, large); }));
}

}  // namespace

TEST_CASE("a node's ranks get closed-form results of every kind, type, operation and placement") {
  try_world({2}, {kTypes.begin(), kTypes.end()});
  try_world({3}, {kTypes.begin(), kTypes.end()});
  for (int const ranks : {4, 5, 6, 7, 8}) {
    try_world({ranks}, {DType::f32});
  }
}

TEST_CASE("parts of several windows each") {
  try_world({4}, {DType::f32}, true);
  try_world({2, 2}, {DType::f32}, true);
}

TEST_CASE("two nodes get closed-form results of every kind, type, operation and placement") {
  try_world({1, 1}, {kTypes.begin(), kTypes.end()});
  try_world({2, 2}, {kTypes.begin(), kTypes.end()});
}

TEST_CASE("nodes of different sizes") {
  try_world({3, 1}, {DType::f32});
  try_world({2, 3}, {DType::f32});
  try_world({1, 2, 5}, {DType::f32});
  try_world({2, 2, 2, 2}, {DType::bf16});
}

TEST_CASE("buffers beyond 4 GiB of the shared memory, which nobody writes to, and copies of an arena's end") {
  NodeWorld node({2});
  require_all_returned(test::run_ranks(2, [&](int rank) -> std::string {
    auto const backend = node.join(rank);
    std::size_t const most = std::size_t{3} << 30;
    std::byte* const arena = backend->allocate(most);
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    std::byte* const end = arena + most - kBytes;
    Call const call{.kind = Kind::all_reduce, .type = DType::f32, .count = kBytes / sizeof(float)};
    return test::attempt(*backend, call, rank, 2, end, end);
  }));
}

TEST_CASE("windows of all parts fit into a piece of staging memory") {
  for (std::size_t parts = 1; parts <= 2 * host::kPieceBytes; parts += parts / 100 + 1) {
    REQUIRE(host::window_bytes(parts) * parts <= host::kPieceBytes);
  }
}

TEST_CASE("windows of more elements than 32 bits count") {
  constexpr std::size_t kHuge = std::size_t{5} << 32;
  auto const middle = host::window_of({kHuge, kHuge + 3}, kHuge - 1, host::kPieceBytes);
  CHECK(middle.offset == 2 * kHuge - 1);
  CHECK(middle.bytes == 4);
  CHECK(host::window_of({kHuge, kHuge}, 2 * kHuge, 128).bytes == 0);
  CHECK(host::window_bytes(4) == host::kPieceBytes / 4);
  CHECK(host::window_bytes(host::kPieceBytes / 8) == 8);
  CHECK(host::window_bytes(host::kPieceBytes / 8 + 1) == 0);
}

TEST_CASE("scale and wire formats") {
  for (auto const& sizes : {std::vector{2}, std::vector{2, 2}, std::vector{1, 3}}) {
    NodeWorld node(sizes);
    require_all_returned(test::run_ranks(node.ranks(), [&](int rank) -> std::string {
      auto const backend = node.join(rank);
      std::vector<std::byte> buffer(std::size_t{8} << 20);
      for (Wire const wire : {Wire::same, Wire::bf16, Wire::f16}) {
        for (std::size_t const count : {1, 500, 5000, 500'000}) {
          Call const call{.kind = Kind::all_reduce, .type = DType::f32, .wire = wire, .count = count, .scale = 0.5F};
          auto wrong = test::attempt(*backend, call, rank, node.ranks(), buffer.data(), buffer.data());
          if (!wrong.empty()) {
            return wrong;
          }
        }
      }
      return "";
    }));
  }
}

}  // namespace cxxrun
