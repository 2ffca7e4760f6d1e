// Groups of a Communicator: their members, their collectives, and how they end.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "cxxrun/gradient_synchronizer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/comm_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

/// The sum of rank + 1 over the world's ranks in `group`, through an arena, a buffer elsewhere and the background.
void expect_sums(Communicator& group) {
  float right = 0;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    right += static_cast<float>(group.world_rank(rank) + 1);
  }
  auto const mine = static_cast<float>(group.world_rank(group.rank()) + 1);
  auto arena = group.arena(400'000);
  auto const shared = arena.allocate<float>(100'000);
  std::vector<float> own(5000, mine);
  std::fill(shared.begin(), shared.end(), mine);
  auto work = group.start_all_reduce(own.data(), own.data(), own.size(), DType::f32);
  group.all_reduce(shared);
  work.wait();
  expect(shared.front() == right && shared.back() == right && own[4999] == right, "a sum in a group");
}

std::string ranks_of(Communicator const& group) {
  std::string text;
  for (int rank = 0; rank < group.world_size(); ++rank) {
    text += std::to_string(group.world_rank(rank)) + group.host(rank).back();
  }
  return text;
}

/// The failure of the next barriers of `comm`.
std::string end_of(Communicator& comm) {
  try {
    for (;;) {
      comm.barrier();
    }
  } catch (PeerFailure const& failure) {
    return named_by(failure);
  } catch (Failure const& failure) {
    return failure.what();
  }
}

}  // namespace

TEST_CASE("groups: rows and columns of a grid, on one to three hosts, used in turns with the whole") {
  for (char const* const nodes : {"aaaa", "aabb", "abab", "aaab", "abcc"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(4, [&](int rank) {
      auto comm = init(store, rank, nodes);
      auto row = comm.split(rank / 2);
      auto column = comm.split(rank % 2);
      expect(row && column, "every rank has both");
      expect(row->rank() == rank % 2 && row->world_size() == 2 && column->rank() == rank / 2, "its place");
      expect(row->world_rank(1) == rank / 2 * 2 + 1 && row->generation() == comm.generation(), "the world's number");
      for (int i = 0; i < 3; ++i) {
        expect_sums(*row);
        expect_sums(comm);
        expect_sums(*column);
      }
      auto const told = column->all_gather_value(rank);
      expect(told == std::vector<int>{rank % 2, rank % 2 + 2}, "an all_gather in a group");
      float value = static_cast<float>(rank);
      row->broadcast(&value, 1, DType::f32, 1);
      expect(value == static_cast<float>(rank / 2 * 2 + 1), "a broadcast in a group");
      comm.barrier();
      return std::string();
    }));
  }
}

TEST_CASE("groups: key orders, no color makes none, one rank is a group, and a group may be split") {
  for (char const* const nodes : {"aaaaa", "aabbc"}) {
    ForkedStore const store;
    auto const ends = run_ranks(5, [&](int rank) {
      auto comm = init(store, rank, nodes);
      auto odd = comm.split(rank == 4 ? std::nullopt : std::optional(rank == 0 ? 7 : 2), -rank);
      expect(odd.has_value() == (rank != 4), "no color, no group");
      expect(!comm.split(-1), "nor with a negative one");
      std::string said = odd ? ranks_of(*odd) : "none";
      if (odd) {
        expect_sums(*odd);
        expect(has(odd->describe(), "of the world"), "its description");
        auto half = odd->split(odd->rank() / 2);
        expect_sums(*half);
        said += " " + ranks_of(*half);
        half->barrier();
      }
      comm.barrier();
      return said;
    });
    check_all_returned(ends);
    std::string const three = nodes[2] == 'a' ? "3a2a1a" : "3b2b1a";
    CHECK(ends[0].said == "0a 0a");
    CHECK(ends[1].said == three + " 1a");
    CHECK(ends[2].said == three + " " + three.substr(0, 4));
    CHECK(ends[3].said == three + " " + three.substr(0, 4));
    CHECK(ends[4].said == "none");
  }
}

TEST_CASE("groups: gradients are averaged over a group") {
  for (char const* const nodes : {"aaaa", "abab"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(4, [&](int rank) {
      auto comm = init(store, rank, nodes);
      auto column = comm.split(rank % 2);
      GradientSynchronizer sync(*column, std::vector<Parameter>{{"w", 300, DType::f32}, {"b", 7, DType::f32}});
      for (int step = 0; step < 3; ++step) {
        for (std::size_t i : {0U, 1U}) {
          auto const gradient = sync.gradient<float>(i);
          std::fill(gradient.begin(), gradient.end(), static_cast<float>(rank));
          sync.mark_ready(i);
        }
        sync.wait();
        expect(sync.gradient<float>(0)[299] == static_cast<float>(rank % 2) + 1, "a mean");
      }
      comm.barrier();
      return std::string();
    }));
  }
}

TEST_CASE("groups: a rank that does not split, or splits another time, is named on all") {
  for (char const* const nodes : {"aaa", "aab"}) {
    ForkedStore const store;
    auto const ends = run_ranks(3, [&](int rank) {
      auto comm = init(store, rank, nodes);
      auto first = comm.split(0);
      if (rank == 2) {
        return end_of(comm);
      }
      try {
        static_cast<void>(comm.split(rank));
      } catch (Failure const& failure) {
        expect(end_of(*first) == failure.what(), "the group has ended with it");
        return std::string(failure.what());
      }
      return std::string("split");
    });
    for (auto const& end : ends) {
      INFO(end.said);
      CHECK(has(end.said, "rank 0 called split"));
      CHECK(has(end.said, "rank 2 called barrier"));
    }
  }
}

TEST_CASE("groups: one that does not come to a split is named when op_timeout ends") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) {
    setenv("CXXRUN_OP_TIMEOUT", "0.2", 1);
    auto comm = init(store, rank, "ab");
    if (rank == 1) {
      or_throw(store.client().wait({"noticed"}));
      return std::string();
    }
    try {
      static_cast<void>(comm.split(0));
    } catch (PeerFailure const& failure) {
      or_throw(store.client().add("noticed", 1));
      return std::to_string(static_cast<int>(failure.why())) + " " + std::to_string(failure.rank());
    }
    return std::string("split");
  });
  CHECK(ends[0].said == "2 1");
}

TEST_CASE("groups: one that cannot connect its group tells the others, who do not wait for it") {
  for (int const victim : {0, 1}) {  // rank 0 would hand the memory of the node to the others
    for (char const* const nodes : {"aaa", "aab"}) {
      ForkedStore const store;
      auto const ends = run_ranks(3, [&](int rank) {
        auto comm = init(store, rank, nodes);
        if (rank == victim) {
          rlimit const limit{4096, RLIM_INFINITY};
          setrlimit(RLIMIT_FSIZE, &limit);
        }
        try {
          static_cast<void>(comm.split(0));
        } catch (Failure const& failure) {
          expect(end_of(comm) == failure.what(), "the world has ended with it");
          return std::string(failure.what());
        }
        return std::string("split");
      });
      for (auto const& end : ends) {
        INFO(nodes << ": " << end.said);
        CHECK(has(end.said, "rank " + std::to_string(victim) + " on host_a cannot map the memory"));
      }
    }
  }
}

TEST_CASE("groups: ranks that call different things are named as the world numbers them") {
  for (char const* const nodes : {"aaaa", "aaab"}) {
    ForkedStore const store;
    auto const ends = run_ranks(4, [&](int rank) {
      auto comm = init(store, rank, nodes);
      auto upper = comm.split(rank / 2);
      comm.barrier();  // otherwise a rank that is still in split() gets the failure there
      if (rank < 2) {
        return end_of(comm);
      }
      std::vector<float> values(8, 1);
      try {
        upper->all_reduce(values.data(), values.data(), static_cast<std::size_t>(rank), DType::f32);
      } catch (Failure const& failure) {
        expect(end_of(comm) == failure.what(), "the whole has ended with it");
        return std::string(failure.what());
      }
      return std::string("summed");
    });
    INFO(ends[2].said);
    CHECK(has(ends[2].said, "rank 2 called all_reduce of 2 f32"));
    CHECK(has(ends[2].said, "rank 3 called all_reduce of 3 f32"));
    CHECK(ends[3].said == ends[2].said);
    CHECK(ends[0].said == ends[2].said);
    CHECK(ends[1].said == ends[2].said);
  }
}

TEST_CASE("groups: a death ends the calls of all groups that the rank was in, and of those whose ranks were in them") {
  for (char const* const nodes : {"aaaa", "aabb", "abab", "abcd", "aabc"}) {
    ForkedStore const store;
    auto const ends = run_ranks(4, [&](int rank) {
      auto comm = init(store, rank, nodes);
      auto row = comm.split(rank / 2);
      auto column = comm.split(rank % 2);
      auto alone = comm.split(rank);
      die_when_ready(store, rank, 3, 4);
      // Rank 0 waits for rank 1, which waits for the dead rank.
      std::string const said = end_of(rank == 1 ? *column : *row);
      for (Communicator* const other : {&*row, &*column, &*alone, &comm}) {
        std::string const end = end_of(*other);
        expect(end == said, end.c_str());
      }
      return said;
    });
    for (std::size_t const rank : {0U, 1U, 2U}) {
      INFO(nodes);
      CHECK(ends[rank].said == std::string("0 rank 3 on host_") + nodes[3]);
    }
  }
}

TEST_CASE("groups: work in the background of one group ends with the failure of another") {
  for (char const* const nodes : {"aaa", "abc"}) {
    ForkedStore const store;
    auto const ends = run_ranks(3, [&](int rank) {
      auto comm = init(store, rank, nodes);
      auto low = comm.split(rank == 2 ? std::nullopt : std::optional(0));
      auto high = comm.split(rank == 0 ? std::nullopt : std::optional(0));
      die_when_ready(store, rank, 2, 3);
      std::vector<float> values(100'000, 1);
      if (rank == 1) {
        return end_of(*high);
      }
      auto work = low->start_all_reduce(values.data(), values.data(), values.size(), DType::f32);
      try {
        work.wait();
      } catch (PeerFailure const& failure) {
        return named_by(failure);
      }
      return std::string("summed");
    });
    CHECK(ends[0].said == std::string("0 rank 2 on host_") + nodes[2]);
    CHECK(ends[1].said == ends[0].said);
  }
}

TEST_CASE("background: reduce_scatter, all_gather and broadcast are carried out in the order in which they began") {
  for (char const* const nodes : {"aaa", "aab", "abc"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(3, [&](int rank) {
      auto comm = init(store, rank, nodes);
      constexpr std::size_t kCount = 4000;
      std::vector<float> whole(3 * kCount, 1.0F);
      std::vector<float> part(kCount);
      for (int i = 0; i < 20; ++i) {  // each uses the result of the one before
        auto const scattered = comm.start_reduce_scatter(whole.data(), part.data(), kCount, DType::f32, ReduceOp::sum,
                                                         Wire::same, 1.0F / 3);
        auto const gathered = comm.start_all_gather(part.data(), whole.data(), kCount, DType::f32);
        auto last = comm.start_broadcast(whole.data(), kCount, DType::f32, 2);
        last.wait();
        expect(scattered.done() && gathered.done(), "the last one is done, so all are");
      }
      expect(std::all_of(whole.begin(), whole.end(), [](float v) { return std::abs(v - 1) < 1e-3F; }), "the means");
      float value = static_cast<float>(rank);
      auto first = comm.start_broadcast(&value, 1, DType::f32, 2);
      comm.all_reduce(&value, &value, 1, DType::f32);  // behind it
      expect(value == 6, "a blocking call comes after what was begun before");
      first.wait();
      comm.barrier();
      return std::string();
    }));
  }
}
