#include "cxxrun/communicator.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/forked_store.hpp"
#include "tests/support/ranks.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)
using cxxrun::test::ForkedStore;
using cxxrun::test::RankEnd;
using cxxrun::test::run_ranks;

namespace {

constexpr std::chrono::seconds kGuard{60};

WorkerEnv env_of(ForkedStore const& store, int rank, int world) {
  WorkerEnv env;
  env.rank = env.local_rank = rank;
  env.world_size = env.local_world_size = world;
  env.generation = 1;
  env.store = store.address();
  return env;
}

// Which ranks share a node: "aab" puts ranks 0 and 1 on one and rank 2 on another.
Communicator init(ForkedStore const& store, int rank, std::string const& nodes, Communicator::Options options = {}) {
  options.init_timeout = std::min<std::chrono::milliseconds>(options.init_timeout, kGuard);
  std::string const node(1, nodes[static_cast<std::size_t>(rank)]);
  setenv("CXXRUN_HOST_ID", node.c_str(), 1);
  setenv("CXXRUN_HOST", ("host_" + node).c_str(), 1);
  return Communicator::init(env_of(store, rank, static_cast<int>(nodes.size())), options);
}

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

void expect(bool right, char const* what) {
  if (!right) {
    throw std::runtime_error(std::string("wrong: ") + what);
  }
}

void check_all_returned(std::vector<RankEnd> const& ends) {
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(end.returned());
  }
}

// Every call once, with results that can be written down. `n` elements.
void call_everything(Communicator& comm, std::size_t n) {
  int const world = comm.world_size();
  int const me = comm.rank();
  auto const w = static_cast<std::size_t>(world);
  auto const r = static_cast<std::size_t>(me);
  auto arena = comm.arena((n * sizeof(float) + Arena::kAlignment) * 2);
  auto shared = arena.allocate<float>(n);
  std::iota(shared.begin(), shared.end(), static_cast<float>(me));
  comm.all_reduce(shared);
  for (std::size_t i = 0; i < n; ++i) {
    expect(shared[i] == static_cast<float>(i * w + w * (w - 1) / 2), "all_reduce in the arena");
  }
  std::vector<std::int64_t> own(n, me);
  comm.all_reduce(std::span(own), ReduceOp::max);
  expect(own == std::vector<std::int64_t>(n, world - 1), "all_reduce of other memory");

  std::vector<double> parts(n * w);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = static_cast<double>(i / n * 10) + me;
  }
  std::vector<double> part(n);
  comm.reduce_scatter(parts.data(), part.data(), n, DType::f64);
  expect(part == std::vector<double>(n, static_cast<double>(r * 10 * w + w * (w - 1) / 2)), "reduce_scatter");

  std::vector<std::int32_t> mine(n, me * 3);
  std::vector<std::int32_t> all(n * w);
  comm.all_gather(mine.data(), all.data(), n, DType::i32);
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect(all[i] == static_cast<int>(i / n) * 3, "all_gather");
  }
  for (int root = 0; root < world; ++root) {
    std::vector<std::uint8_t> bytes(n, static_cast<std::uint8_t>(me + 1));
    comm.broadcast(std::span(bytes), root);
    expect(bytes == std::vector<std::uint8_t>(n, static_cast<std::uint8_t>(root + 1)), "broadcast");
  }
  std::vector<std::int32_t> sent(n * w);
  std::vector<std::int32_t> got(n * w);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    sent[i] = me * 100 + static_cast<int>(i / n);
  }
  comm.all_to_all(sent.data(), got.data(), n, DType::i32);
  for (std::size_t i = 0; i < got.size(); ++i) {
    expect(got[i] == static_cast<int>(i / n) * 100 + me, "all_to_all");
  }
  auto const squares = comm.all_gather_value(me * me);
  for (int rank = 0; rank < world; ++rank) {
    expect(squares[static_cast<std::size_t>(rank)] == rank * rank, "all_gather_value");
  }
  comm.barrier();
}

}  // namespace

TEST_CASE("communicator: every call, in worlds of one to eight on one node") {
  for (int const world : {1, 2, 3, 4, 8}) {
    ForkedStore const store;
    check_all_returned(run_ranks(world, [&](int rank) {
      auto comm = init(store, rank, std::string(static_cast<std::size_t>(world), 'a'));
      for (std::size_t const n : {std::size_t{1}, std::size_t{7}, std::size_t{40'000}}) {
        call_everything(comm, n);
      }
      return std::string();
    }));
  }
}
