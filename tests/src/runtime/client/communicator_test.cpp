// Communicator: results.
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <tuple>
#include <unistd.h>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/comm_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

// Every call once, with known results. `n` elements.
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

TEST_CASE("communicator: every call, between simulated nodes of equal and unequal sizes") {
  for (char const* const nodes : {"ab", "abc", "aabb", "abab", "aab", "abbb", "abcbcc"}) {
    ForkedStore const store;
    std::string const map(nodes);
    INFO(map);
    check_all_returned(run_ranks(static_cast<int>(map.size()), [&](int rank) {
      auto comm = init(store, rank, map);
      call_everything(comm, 1);
      call_everything(comm, 3001);
      return std::string();
    }));
  }
}

TEST_CASE("communicator: what it says about itself") {
  ForkedStore const store;
  auto const ends = run_ranks(3, [&](int rank) {
    auto comm = init(store, rank, "aab");
    expect(comm.generation() == 1 && comm.local_rank() == rank && comm.world_size() == 3, "numbers");
    expect(comm.host(0) == "host_a" && comm.host(2) == "host_b", "hosts");
    comm.barrier();
    return comm.describe();
  });
  CHECK(ends[1].said == "rank 1 of 3 on host_a: host backend, 2 nodes, 2 ranks share memory here");
  CHECK(ends[2].said == "rank 2 of 3 on host_b: host backend, 2 nodes, 1 rank here");
}

TEST_CASE("communicator: several in one process, one after another and at once") {
  ForkedStore const store;
  check_all_returned(run_ranks(2, [&](int rank) {
    { call_everything(*std::make_unique<Communicator>(init(store, rank, "aa")), 10); }
    auto first = init(store, rank, "aa");
    auto second = init(store, rank, "aa");
    std::vector<float> a{1};
    std::vector<float> b{10};
    auto in_first = first.start_all_reduce(a.data(), a.data(), 1, DType::f32);
    auto in_second = second.start_all_reduce(b.data(), b.data(), 1, DType::f32);
    in_second.wait();
    in_first.wait();
    expect(a[0] == 2 && b[0] == 20, "sums of two communicators");
    first = std::move(second);  // ends the first
    call_everything(first, 10);
    first.barrier();
    return std::string();
  }));
}

TEST_CASE("communicator: calls in the background and blocking ones are carried out in the order they were made") {
  ForkedStore const store;
  check_all_returned(run_ranks(2, [&](int rank) {
    auto comm = init(store, rank, "aa");
    std::vector<double> value{1};
    double expected = 1;
    std::vector<Work> works;
    for (int i = 0; i < 1000; ++i) {  // each doubles the result of the one before
      expected = expected >= 1e9 ? 1 : expected * 2;
      float const scale = expected == 1 ? static_cast<float>(1.0 / (1 << 30)) : 1.0F;
      if (i % 100 == 99) {
        comm.all_reduce(std::span(value));
        expected = expected == 1 ? 2.0 * (1 << 30) : expected;
        expect(works.back().done(), "those before a blocking call");
      } else {
        works.push_back(comm.start_all_reduce(value.data(), value.data(), 1, DType::f64, ReduceOp::sum, Wire::same,
                                              expected == 1 ? scale / 2 : 1.0F));
      }
    }
    for (auto& work : works) {
      work.wait();
    }
    expect(value[0] == expected, "the sum");
    comm.barrier();
    return std::string();
  }));
}

TEST_CASE("communicator: a Work and an Arena may outlive it") {
  ForkedStore const store;
  check_all_returned(run_ranks(2, [&](int rank) {
    Work work;
    Arena arena;
    std::span<float> values;
    {
      auto comm = init(store, rank, "aa");
      arena = comm.arena(4096);
      values = arena.allocate<float>(100);
      std::fill(values.begin(), values.end(), 2.0F);
      work = comm.start_all_reduce(values.data(), values.data(), 100, DType::f32);
    }
    expect(work.done(), "finished before the communicator ended");
    work.wait();
    expect(values[99] == 4, "the arena's memory");
    return std::string();
  }));
}

TEST_CASE("communicator: a forked child that ends, destructors and all, takes nothing from its parent") {
  static std::optional<Communicator> global;  // exit() destroys it
  std::fflush(stdout);                        // which also writes what the test program has not flushed yet
  for (char const* const nodes : {"aa", "ab"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(2, [&](int rank) {
      global.emplace(init(store, rank, nodes));
      std::vector<float> values(1000, 1.0F);
      global->start_all_reduce(values.data(), values.data(), values.size(), DType::f32).wait();
      if (pid_t const child = fork(); child == 0) {
        std::exit(0);
      } else {
        int status = -1;
        expect(waitpid(child, &status, 0) == child && status == 0, "the child's end");
      }
      global->all_reduce(std::span(values));
      expect(values[999] == 4, "the sum after it");
      global->start_all_reduce(values.data(), values.data(), values.size(), DType::f32).wait();
      expect(values[999] == 8, "the sum in the background");
      global->barrier();
      global.reset();
      return std::string();
    }));
  }
}

TEST_CASE("communicator: ranks that end after a barrier disturb nobody") {
  for (char const* const nodes : {"aaa", "abc", "aab"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(3, [&](int rank) {
      for (int i = 0; i < 20; ++i) {
        auto comm = init(store, rank, nodes);
        comm.barrier();
      }
      return std::string();
    }));
  }
}

TEST_CASE("communicator: without a launcher's store rank 0 hosts it") {
  std::uint16_t const port = [] { return ForkedStore().address().port; }();  // free again
  auto const env = [&](int rank, int world) {
    WorkerEnv mine;
    mine.rank = mine.local_rank = rank;
    mine.world_size = mine.local_world_size = world;
    mine.store = StoreAddress{"127.0.0.1", port};
    mine.store_unserved = true;
    return mine;
  };
  SECTION("for a world") {
    check_all_returned(run_ranks(4, [&](int rank) {
      setenv("CXXRUN_HOST_ID", rank < 2 ? "a" : "b", 1);
      auto comm = Communicator::init(env(rank, 4), {});
      call_everything(comm, 100);
      return std::string();
    }));
  }
  SECTION("for one that cannot form: all have read why before it goes") {
    std::array<int, 2> over{};
    REQUIRE(pipe(over.data()) == 0);
    auto const ends = run_ranks(
        4,
        [&](int rank) {
          if (rank == 0 || rank == 2) {
            close(over[1]);
          }
          char byte = 0;
          expect(rank != 2 || read(over[0], &byte, 1) == 0, "rank 2 comes when ranks 1 and 3 are gone");
          (void)Communicator::init(env(rank, rank == 3 ? 5 : 4), {});
          return std::string();
        },
        [&](auto const&) { close(over[1]); });
    close(over[0]);
    for (auto const& end : ends) {
      INFO(end.said);
      CHECK(has(end.said, "has WORLD_SIZE 5, but rank 0 on "));
    }
  }
  SECTION("a second rank 0 on the machine finds the port taken") {
    auto const ends = run_ranks(2, [&](int i) {
      (void)Communicator::init(env(0, 2), {.op_timeout = kGuard, .init_timeout = std::chrono::milliseconds(500)});
      return std::to_string(i);
    });
    INFO(ends[0].said << "\n" << ends[1].said);
    CHECK((has(ends[0].said, "port " + std::to_string(port) + " is taken") ||
           has(ends[1].said, "port " + std::to_string(port) + " is taken")));
    CHECK((has(ends[0].said, "rank 1 of 2 did not come") || has(ends[1].said, "rank 1 of 2 did not come")));
  }
}

TEST_CASE("communicator: a timeout that is none is refused, told to all, and the longest is for ever") {
  using std::chrono::milliseconds;
  for (auto const& [op, init_time, says] :
       {std::tuple(milliseconds(0), milliseconds(kGuard), "Options::op_timeout is 0 ms; give at least 1 ms"),
        std::tuple(milliseconds(kGuard), milliseconds(-5), "Options::init_timeout is -5 ms; give at least 1 ms")}) {
    for (int const broken : {0, 1}) {
      ForkedStore const store;
      auto const ends = run_ranks(2, [&](int rank) {
        setenv("CXXRUN_HOST", "host_a", 1);
        auto const options =
            rank == broken ? Communicator::Options{op, init_time} : Communicator::Options{kGuard, kGuard};
        (void)Communicator::init(env_of(store, rank, 2), options);
        return std::string("met");
      });
      for (auto const& end : ends) {
        INFO(end.said);
        CHECK(has(end.said, "exception: rank " + std::to_string(broken) + " on host_a (pid "));
        CHECK(has(end.said, says));
      }
    }
  }
  for (char const* const hosts : {"aa", "ab"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(2, [&](int rank) {
      setenv("CXXRUN_HOST_ID", std::string(1, hosts[rank]).c_str(), 1);
      auto comm = Communicator::init(env_of(store, rank, 2), {milliseconds::max(), milliseconds::max()});
      comm.barrier();
      return std::string();
    }));
  }
}

TEST_CASE("communicator: alone, an arena too large and a half-set environment name rank and host") {
  check_all_returned(run_ranks(1, [](int) {
    setenv("CXXRUN_HOST", "node7", 1);
    auto const refused = [](auto const& body, std::string const& says) {
      try {
        body();
        expect(false, says.c_str());
      } catch (Failure const& failure) {
        expect(has(failure.what(), says), failure.what());
      }
    };
    refused([] { static_cast<void>(Communicator::init(WorkerEnv{}, {}).arena(std::size_t{1} << 60)); },
            "rank 0 on node7: no memory for an arena");
    for (int rank : {-1, 1}) {
      refused([rank] { static_cast<void>(Communicator::init(WorkerEnv{}, {}).host(rank)); },
              "rank 0 on node7: there is no rank " + std::to_string(rank) + ": the ranks are 0 to 0");
    }
    setenv("RANK", "3", 1);
    refused([] { (void)Communicator::init(); }, "rank 3 on node7: WORLD_SIZE is not set");
    unsetenv("RANK");
    setenv("WORLD_SIZE", "2", 1);
    refused([] { (void)Communicator::init(); }, "on node7: RANK is not set");
    return std::string();
  }));
}
