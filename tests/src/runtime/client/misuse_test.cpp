// Unusual but correct uses of groups, arenas and background calls, and incorrect ones that are refused with a
// message.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/gradient_synchronizer.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/comm_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::size_t kCount = 40'000;

bool is_all(std::span<float const> values, float right) {
  return std::ranges::all_of(values, [right](float value) { return value == right; });
}

}  // namespace

TEST_CASE("misuse: an arena of one Communicator serves in the calls of another, like any memory") {
  for (char const* const nodes : {"aaaa", "aabb", "abab", "aaab"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(4, [&](int rank) {
      auto comm = init(store, rank, nodes);
      auto group = comm.split(rank % 2);
      auto of_world = comm.arena(kCount * sizeof(float));
      auto of_group = group->arena(kCount * sizeof(float));
      auto const far = of_world.allocate<float>(kCount);
      auto const near = of_group.allocate<float>(kCount);
      std::ranges::fill(far, 1.0F);
      group->all_reduce(far);
      expect(is_all(far, 2), "the world's arena in the group");
      std::ranges::fill(near, rank == 3 ? 2.0F : 1.0F);
      comm.all_reduce(near);
      expect(is_all(near, 5), "the group's arena in the world");
      rank % 2 == 0 ? comm.all_reduce(far) : comm.all_reduce(near);  // each its own
      expect(is_all(rank % 2 == 0 ? far : near, 14), "both in one call");
      group.reset();
      comm.all_reduce(near.data(), far.data(), kCount, DType::f32);
      expect(is_all(far, 38), "what a group has left behind");
      comm.barrier();
      return std::string();
    }));
  }
}

TEST_CASE("misuse: 16 bit in another Communicator's arena, on a wire that is for f32 alone, are added up like any") {
  for (char const* const nodes : {"aaaa", "aabb", "abab"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(4, [&](int rank) {
      auto comm = init(store, rank, nodes);
      auto group = comm.split(rank % 2);
      auto of_world = comm.arena(kCount * sizeof(bfloat16));
      auto const values = of_world.allocate<bfloat16>(kCount);
      std::ranges::fill(values, bfloat16(static_cast<float>(1 + rank)));
      group->start_all_reduce(values.data(), values.data(), kCount, DType::bf16, ReduceOp::sum, Wire::f16).wait();
      auto const right = bfloat16(rank % 2 == 0 ? 4.0F : 6.0F);
      expect(std::ranges::all_of(values, [&](bfloat16 value) { return value == right; }), "a sum in the group");
      comm.all_reduce(values);
      expect(std::ranges::all_of(values, [](bfloat16 value) { return value == bfloat16(20.0F); }), "in the world");
      comm.barrier();
      return std::string();
    }));
  }
}

TEST_CASE("misuse: calls in the background outlive the group that they were made in") {
  for (char const* const nodes : {"aaa", "aab", "abc"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(3, [&](int rank) {
      auto comm = init(store, rank, nodes);
      std::vector<std::vector<float>> values(20, std::vector<float>(kCount, static_cast<float>(rank)));
      std::vector<Work> works;
      {
        auto group = comm.split(0, -rank);
        for (auto& each : values) {
          works.push_back(group->start_all_reduce(each.data(), each.data(), each.size(), DType::f32));
        }
        works.push_back(group->start_broadcast(values[0].data(), 1, DType::f32));
      }
      for (auto& work : works) {
        expect(work.done(), "the group waits for its calls before it goes");
        work.wait();
      }
      expect(std::ranges::all_of(values, [](auto const& each) { return is_all(each, 3); }), "the sums");
      comm.barrier();
      return std::string();
    }));
  }
}

TEST_CASE("misuse: a synchronizer that goes in the middle of a step on all ranks leaves the Communicator in order") {
  for (char const* const nodes : {"aaa", "aab", "abc"}) {
    ForkedStore const store;
    check_all_returned(run_ranks(3, [&](int rank) {
      auto comm = init(store, rank, nodes);
      for (int i = 0; i < 5; ++i) {
        GradientSynchronizer sync(comm, {{"a", kCount}, {"b", kCount}, {"c", kCount}}, {.first_bucket_bytes = 1000});
        sync.mark_ready(2);
        sync.mark_ready(1);
      }
      std::vector<float> values(kCount, 1);
      comm.all_reduce(std::span(values));
      expect(is_all(values, 3), "the sum after it");
      comm.barrier();
      return std::string();
    }));
  }
}

TEST_CASE("misuse: a call that is refused in a group or in the world ends the others on that rank in the same words") {
  for (bool const in_group : {true, false}) {
    ForkedStore const store;
    auto const ends = run_ranks(4, [&](int rank) {
      auto comm = init(store, rank, "aabb");
      auto group = comm.split(rank / 2);
      auto& first = in_group ? *group : comm;
      if (rank == 3) {
        float value = 0;
        auto said = words([&] { static_cast<void>(first.start_broadcast(&value, 1, DType::f32, 7)); });
        auto const then = words([&] { (in_group ? comm : *group).barrier(); });
        expect(then == said, then.c_str());
        return said;
      }
      return words([&] { (rank == 2 ? *group : comm).barrier(); });
    });
    for (auto const& end : ends) {
      INFO(end.said);
      CHECK(has(end.said, "rank 3 on host_b"));
    }
    CHECK(has(ends[3].said, "broadcast of 1 f32 from rank 7: the ranks are 0 to "));
  }
}
