// NcclSettings: which are refused, which must be equal on all ranks, and that NCCL gets them: on the double.
#include <vector>

#include "src/runtime/gpu/choice.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/gpu_world.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

/// The result on each rank of a job of two ranks on two nodes; rank 1 has other settings.
std::vector<std::string> job(NcclSettings const& first, NcclSettings const& second, std::string const& script = "") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) {
    Communicator::Options options;
    options.nccl = rank == 0 ? first : second;
    auto comm = init_on_device(store, rank, "ab", "devices=4" + script, options);
    comm.barrier();
    return std::string("met");
  });
  return {ends[0].said, ends[1].said};
}

std::string refusal_of(NcclSettings const& settings) {
  return gpu::refusal(settings).value_or("taken");
}

}  // namespace

TEST_CASE("gpu settings: NCCL gets what is set, in the world and in its groups, and nothing else", "[process]") {
  ForkedStore const store;
  check_all_returned(run_ranks(2, [&](int rank) {
    {
      Communicator::Options options;
      options.nccl = {.min_ctas = 2, .max_ctas = 8, .cga_cluster_size = 0, .traffic_class = 105, .name = "trainer"};
      auto comm = init_on_device(store, rank, "aa", "devices=4", options);
      auto const group = comm.split(0);
      comm.barrier();
    }
    for (char const* const seen :
         {"minCTAs 2", "maxCTAs 8", "cgaClusterSize 0", "trafficClass 105", "commName trainer"}) {
      expect(cxxrun_cuda_double_calls(seen) == 2, seen);
    }
    return std::string();
  }));
}

TEST_CASE("gpu settings: a least alone is taken, and what is not set is left to NCCL", "[process]") {
  for (bool const least : {true, false}) {
    ForkedStore const store;
    check_all_returned(run_ranks(2, [&](int rank) {
      Communicator::Options options;
      options.nccl.min_ctas = least ? std::optional(4) : std::nullopt;
      auto comm = init_on_device(store, rank, "aa", "devices=4", options);
      comm.barrier();
      expect(cxxrun_cuda_double_calls("minCTAs 4") == (least ? 1 : 0), "the least");
      expect(cxxrun_cuda_double_calls("maxCTAs 64") == (least ? 1 : 0), "which NCCL takes only with a most");
      return std::string();
    }));
  }
}

TEST_CASE("gpu settings: ranks that have others are told on all, by the first that differs", "[process]") {
  auto const said = job({.max_ctas = 8}, {.max_ctas = 4, .name = "trainer"});
  for (auto const& each : said) {
    INFO(each);
    CHECK(has(each,
              "rank 1 on host_b: Options::nccl says max_ctas 4, name \"trainer\", and that of rank 0 max_ctas 8; "
              "every rank gives the same"));
  }
  CHECK(has(job({}, {.traffic_class = 1})[0], "says traffic_class 1, and that of rank 0 nothing;"));
}

TEST_CASE("gpu settings: what this NCCL does not know is refused on all ranks, and a name is left out", "[process]") {
  NcclSettings const classed{.traffic_class = 3};
  for (auto const& each : job(classed, classed, ",nccl=22501")) {
    INFO(each);
    CHECK(has(each, "Options::nccl.traffic_class is set, and NCCL 2.25.1 does not support it; use 2.26.2 or newer"));
  }
  CHECK(job({.name = "trainer"}, {.name = "trainer"}, ",nccl=22501")[0] == "met");
}

TEST_CASE("gpu settings: numbers and names that NCCL cannot take are refused, also for the host backend", "[process]") {
  CHECK(refusal_of({}) == "taken");
  CHECK(refusal_of({.min_ctas = 1, .max_ctas = 64, .cga_cluster_size = 8, .traffic_class = 255, .name = "a/b-1"}) ==
        "taken");
  CHECK(refusal_of({.min_ctas = 0}) == "Options::nccl.min_ctas is 0; give a number from 1 to 64");
  CHECK(refusal_of({.max_ctas = 65}) == "Options::nccl.max_ctas is 65; give a number from 1 to 64");
  CHECK(refusal_of({.cga_cluster_size = 9}) == "Options::nccl.cga_cluster_size is 9; give a number from 0 to 8");
  CHECK(refusal_of({.traffic_class = -1}) == "Options::nccl.traffic_class is -1; give a number from 0 to 255");
  CHECK(refusal_of({.min_ctas = 9, .max_ctas = 8}) ==
        "Options::nccl.min_ctas is 9 and max_ctas 8; the first must not exceed the second");
  for (std::string const& name : {std::string("two words"), std::string(65, 'a'), std::string("\n")}) {
    CHECK(has(refusal_of({.name = name}), "Options::nccl.name is not a name of at most 64 printable ASCII characters"));
  }
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) {
    Communicator::Options options;
    options.nccl.max_ctas = rank;
    options.backend = Backend::host;
    static_cast<void>(init(store, rank, "aa", options));
    return std::string("met");
  });
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(has(end.said, "rank 0 on host_a (pid "));
    CHECK(has(end.said, "Options::nccl.max_ctas is 0; give a number from 1 to 64"));
  }
}
