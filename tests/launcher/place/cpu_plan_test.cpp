// Binding, on synthetic machines. What the plans of this real machine are is tested in machine_test.cpp.
#include "launcher/place/cpu_plan.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/machines.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using cxxrun::number_list;
using cxxrun::testing::all_cpus;
using cxxrun::testing::kServer;
using cxxrun::testing::make_machine;
using cxxrun::testing::Shape;
using Node = std::optional<std::uint32_t>;
using Lists = std::vector<std::string>;

namespace {

Lists lists(CpuPlan const& plan) {
  Lists texts;
  for (auto const& set : plan.sets) {
    texts.push_back(number_list(set));
  }
  return texts;
}

/// The plan for all CPUs of a machine.
CpuPlan plan(Shape const& shape, std::uint32_t workers, CpuMode mode, std::vector<Node> const& gpus = {}) {
  auto const machine = make_machine(shape);
  return plan_cpus(machine, all_cpus(machine), workers, gpus, mode);
}

std::map<std::uint32_t, Pu> by_id(Machine const& machine) {
  std::map<std::uint32_t, Pu> pus;
  for (auto const& pu : machine.pus) {
    pus.emplace(pu.id, pu);
  }
  return pus;
}

/// What holds of every plan, whatever the machine, the cpuset and the GPUs. Returns what does not hold.
std::string broken(CpuPlan const& plan, Machine const& machine, CpuSet const& allowed, std::uint32_t workers,
                   CpuMode mode) {
  if (plan.sets.empty()) {
    return plan.note.empty() ? "unbound without a reason" : "";
  }
  if (plan.sets.size() != workers) {
    return "not one set per worker";
  }
  auto const pus = by_id(machine);
  bool const alone = mode == CpuMode::share || mode == CpuMode::exclusive;
  std::set<std::uint32_t> taken;
  std::map<std::uint32_t, std::set<std::size_t>> sizes;  // cores per worker, by NUMA node; share: all under 0
  std::size_t given = 0;
  for (auto const& set : plan.sets) {
    std::set<std::uint32_t> cores;
    for (auto const cpu : set) {
      if (!std::binary_search(allowed.begin(), allowed.end(), cpu)) {
        return "outside the allowed CPUs";
      }
      if (alone && !taken.insert(cpu).second) {
        return "two workers on one CPU";
      }
      cores.insert(pus.at(cpu).core);
    }
    if (set.empty() || !std::is_sorted(set.begin(), set.end())) {
      return "empty or not in order";
    }
    auto const whole = std::count_if(allowed.begin(), allowed.end(),
                                     [&](std::uint32_t cpu) { return cores.contains(pus.at(cpu).core); });
    if (static_cast<std::size_t>(whole) != set.size()) {
      return "half a core";
    }
    given += set.size();
    sizes[mode == CpuMode::share ? 0 : pus.at(set.front()).numa].insert(cores.size());
  }
  for (auto const& [node, counts] : sizes) {
    if (alone && *counts.rbegin() - *counts.begin() > 1) {
      return "not balanced within one core";
    }
  }
  return mode == CpuMode::share && given != allowed.size() ? "CPUs left over" : "";
}

std::string name(Shape const& s) {
  return cxxrun::join({std::to_string(s.packages), std::to_string(s.numa_per_package),
                       std::to_string(s.caches_per_numa), std::to_string(s.cores_per_cache), std::to_string(s.threads)},
                      "x");
}

/// CPUs of a job's cpuset: all, whole cores here and there, or threads here and there.
std::vector<CpuSet> cpusets(Machine const& machine, std::mt19937& random) {
  std::vector<CpuSet> sets{all_cpus(machine)};
  for (unsigned const percent : {20U, 50U, 80U}) {
    CpuSet cores;
    CpuSet threads;
    std::map<std::uint32_t, bool> keep;
    for (auto const& pu : machine.pus) {
      keep.try_emplace(pu.core, random() % 100 < percent);
      if (keep[pu.core]) {
        cores.push_back(pu.id);
      }
      if (random() % 100 < percent) {
        threads.push_back(pu.id);
      }
    }
    sets.push_back(cores);
    sets.push_back(threads);
  }
  return sets;
}

Environment step_of(std::uint32_t tasks) {
  return {{"SLURM_JOB_ID", "7"},         {"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "0"},         {"SLURM_NODEID", "0"},
          {"SLURM_LOCALID", "0"},        {"SLURM_STEP_NODELIST", "n1"},
          {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_TASKS_PER_NODE", std::to_string(tasks)}};
}

constexpr CpuMode kModes[] = {CpuMode::share, CpuMode::node, CpuMode::socket, CpuMode::exclusive,
                              CpuMode::core_complex};

}  // namespace

TEST_CASE("cpu plan: whole cores, disjoint, balanced, allowed and never empty on every machine and cpuset", "[unit]") {
  std::mt19937 random(1);
  std::size_t bound = 0;
  for (std::uint32_t bits = 0; bits < 108; ++bits) {
    Shape const shape{1 + bits % 2, 1 + bits / 2 % 3, 1 + bits / 6 % 2, 1 + bits / 12 % 3 * 2, 1 + bits / 36 % 3 % 2};
    auto const machine = make_machine(shape);
    for (auto const& allowed : cpusets(machine, random)) {
      for (std::uint32_t workers = 1; workers <= 9; ++workers) {
        std::vector<Node> gpus;
        for (std::uint32_t i = 0; i < random() % 10; ++i) {
          auto const node = static_cast<std::uint32_t>(random() % (shape.packages * shape.numa_per_package));
          gpus.push_back(random() % 4 == 0 ? Node() : Node(node));
        }
        for (auto const mode : kModes) {
          auto const plan = plan_cpus(machine, allowed, workers, gpus, mode);
          auto const wrong = broken(plan, machine, allowed, workers, mode);
          bound += plan.sets.empty() ? 0 : 1;
          if (!wrong.empty()) {
            FAIL(wrong << ": " << name(shape) << ", CPUs " << number_list(allowed) << ", " << workers << " workers, "
                       << static_cast<int>(mode) << ": " << cxxrun::join(lists(plan), " | "));
          }
        }
      }
    }
  }
  CHECK(bound > 5000);
}

TEST_CASE("cpu plan: share gives equal slices that end where packages, NUMA nodes and caches end", "[unit]") {
  CHECK(lists(plan(kServer, 2, CpuMode::share)) == Lists{"0-15,32-47", "16-31,48-63"});
  CHECK(lists(plan(kServer, 4, CpuMode::share)) == Lists{"0-7,32-39", "8-15,40-47", "16-23,48-55", "24-31,56-63"});
  CHECK(lists(plan(kServer, 8, CpuMode::share)).at(7) == "28-31,60-63");
  // two slices of three cores and one of two in each package, not four of three first
  CHECK(lists(plan({2, 1, 1, 8, 1}, 6, CpuMode::share)) == Lists{"0-2", "3-5", "6-7", "8-10", "11-13", "14-15"});
  CHECK(lists(plan({2, 1, 1, 8, 1}, 5, CpuMode::share)) == Lists{"0-3", "4-6", "7-9", "10-12", "13-15"});
}

TEST_CASE("cpu plan: share does not straddle NUMA nodes when slices of equal size fit", "[unit]") {
  std::mt19937 random(7);
  int fitting = 0;
  for (int round = 0; round < 2000; ++round) {
    Shape const shape{2, 1, 1, static_cast<std::uint32_t>(4 + random() % 12), 1};
    auto const machine = make_machine(shape);
    auto const allowed = cpusets(machine, random)[random() % 7];
    auto const first = static_cast<std::size_t>(
        std::count_if(allowed.begin(), allowed.end(), [&](auto cpu) { return cpu < shape.cores_per_cache; }));
    auto const second = allowed.size() - first;
    std::uint32_t const workers = 2 + static_cast<std::uint32_t>(random() % 6);
    auto const base = allowed.size() / workers;
    if (first == 0 || second == 0 || base == 0) {
      continue;
    }
    bool fits = false;  // by trying: k workers in the first node, the others in the second
    for (std::size_t k = 1; k < workers; ++k) {
      auto const in = [&](std::size_t n, std::size_t cores) { return n * base <= cores && cores <= n * (base + 1); };
      fits = fits || (in(k, first) && in(workers - k, second));
    }
    auto const plan = plan_cpus(machine, allowed, workers, {}, CpuMode::share);
    auto const straddles = std::any_of(plan.sets.begin(), plan.sets.end(), [&](CpuSet const& set) {
      return set.front() < shape.cores_per_cache && set.back() >= shape.cores_per_cache;
    });
    CHECK(straddles == !fits);
    fitting += fits ? 1 : 0;
  }
  CHECK(fitting > 100);
}

TEST_CASE("cpu plan: share goes where the GPUs are, as far as equal slices allow", "[unit]") {
  // local ranks 0 and 2 have GPUs at node 1
  CHECK(lists(plan({2, 1, 1, 4, 1}, 4, CpuMode::share, {1, 0, 1, 0})) == Lists{"4-5", "0-1", "6-7", "2-3"});
  CHECK(lists(plan({2, 1, 1, 4, 1}, 2, CpuMode::share, {1, 1})) == Lists{"0-3", "4-7"});
  CHECK(lists(plan({2, 1, 1, 4, 1}, 2, CpuMode::share, {1, Node()})) == Lists{"0-3", "4-7"});
  CHECK(lists(plan({2, 1, 1, 4, 1}, 2, CpuMode::share, {1, 9})) == Lists{"0-3", "4-7"});
}

TEST_CASE("cpu plan: fewer CPUs or cores than workers, or no topology: nothing is bound and the line says why",
          "[unit]") {
  auto const none = plan({1, 1, 1, 1, 1}, 2, CpuMode::share);
  CHECK(none.sets.empty());
  CHECK(none.note == "2 workers on 1 CPU: workers are not bound to CPUs");
  CHECK(plan({1, 1, 1, 2, 2}, 4, CpuMode::share).note == "4 workers on 2 cores: workers are not bound to CPUs");
  CHECK(plan({2, 1, 1, 2, 1}, 4, CpuMode::exclusive, {0, 0, 0, 1}).note ==
        "3 workers at NUMA node 0, which has 2 cores: workers are not bound to CPUs");
  CHECK(plan_cpus({}, {0, 1}, 2, {}, CpuMode::node).note ==
        "the machine's topology is not known: workers are not bound to CPUs");
  CHECK(plan(kServer, 8, CpuMode::none).note.empty());
}

TEST_CASE("cpu plan: node and socket are all CPUs near the GPU, shared with others there", "[unit]") {
  std::vector<Node> const gpus{3, 3, 0, 1};
  CHECK(lists(plan(kServer, 4, CpuMode::node, gpus)) == Lists{"24-31,56-63", "24-31,56-63", "0-7,32-39", "8-15,40-47"});
  CHECK(lists(plan(kServer, 4, CpuMode::socket, gpus)) ==
        Lists{"16-31,48-63", "16-31,48-63", "0-15,32-47", "0-15,32-47"});
  auto const machine = make_machine(kServer);
  CHECK(lists(plan_cpus(machine, {0, 1, 24, 40}, 2, {0, 1}, CpuMode::node)) == Lists{"0-1", "40"});
  CHECK(plan_cpus(machine, {0, 1}, 2, {0, 2}, CpuMode::node).note ==
        "the GPU of local rank 1 is at NUMA node 2, of which cxxrun may use no CPU: workers are not bound to CPUs");
}

TEST_CASE("cpu plan: exclusive divides a NUMA node's cores among the workers there, the first ones get more",
          "[unit]") {
  CHECK(lists(plan({2, 1, 1, 8, 2}, 4, CpuMode::exclusive, {1, 1, 1, 0})) ==
        Lists{"8-10,24-26", "11-13,27-29", "14-15,30-31", "0-7,16-23"});
}

TEST_CASE("cpu plan: core-complex gives each worker a cache of its own, the fullest first", "[unit]") {
  auto const machine = make_machine({1, 1, 3, 2, 1});  // caches 0-1, 2-3, 4-5
  CHECK(lists(plan_cpus(machine, {0, 2, 3, 4, 5}, 4, {0, 0, 0, 0}, CpuMode::core_complex)) ==
        Lists{"2-3", "4-5", "0", "2-3"});
}

TEST_CASE("cpu plan: workers whose GPU is nowhere take the NUMA nodes in turn, and one line says so", "[unit]") {
  auto const plan_of_three = plan({2, 1, 1, 2, 1}, 3, CpuMode::node, {1});
  CHECK(lists(plan_of_three) == Lists{"2-3", "2-3", "0-1"});
  CHECK(plan_of_three.note ==
        "the NUMA node of the GPU of local rank 1-2 is not known: bound to the NUMA nodes in turn");
}

TEST_CASE("cpu plan: a NUMA node of two packages stays in one piece", "[unit]") {
  auto machine = make_machine({2, 1, 1, 2, 1});
  for (auto& pu : machine.pus) {
    pu.numa = 0;
  }
  CHECK(lists(plan_cpus(machine, {0, 1, 2, 3}, 2, {0, 0}, CpuMode::exclusive)) == Lists{"0-1", "2-3"});
  CHECK(lists(plan_cpus(machine, {0, 1, 2, 3}, 1, {0}, CpuMode::socket)) == Lists{"0-3"});
}

TEST_CASE("cpu plan: CUDA_VISIBLE_DEVICES gives the order of the GPUs, up to the first that is none", "[unit]") {
  std::vector<Gpu> const gpus{{"GPU-aa11", 0}, {"GPU-bb22", 1}, {"GPU-cc33", std::nullopt}};
  using Nodes = std::vector<Node>;
  CHECK(gpu_nodes(gpus, std::nullopt) == Nodes{0, 1, std::nullopt});
  CHECK(gpu_nodes(gpus, "1, 0") == Nodes{1, 0});
  CHECK(gpu_nodes(gpus, "0,7,1") == Nodes{0});
  CHECK(gpu_nodes(gpus, "GPU-bb,GPU-aa11") == Nodes{1, 0});
  CHECK(gpu_nodes(gpus, "GPU-dd,0").empty());
  CHECK(gpu_nodes(gpus, "MIG-GPU-bb22/3/0,MIG-12ab") == Nodes{1, std::nullopt});
  CHECK(gpu_nodes(gpus, "").empty());
  CHECK(gpu_nodes(gpus, "-1,0").empty());
}

TEST_CASE("cpu plan: share is the default of a Slurm step with one task per node and several workers", "[unit]") {
  Options options;
  Environment const slurm = step_of(1);
  Environment const tasks = step_of(4);
  CHECK(choose_cpu_mode(options, slurm, 8).mode == CpuMode::share);
  CHECK(choose_cpu_mode(options, slurm, 1).mode == CpuMode::none);
  CHECK(choose_cpu_mode(options, tasks, 1).mode == CpuMode::none);
  CHECK(choose_cpu_mode(options, tasks, 1).note.empty());
  CHECK(choose_cpu_mode(options, {}, 8).mode == CpuMode::none);
  CHECK(choose_cpu_mode(options, {{"SLURM_JOB_ID", "7"}}, 8).mode == CpuMode::none);
  CHECK_FALSE(choose_cpu_mode(options, slurm, 8).asked);
  options.cpu_bind = CpuMode::none;
  CHECK(choose_cpu_mode(options, slurm, 8).mode == CpuMode::none);
  options.cpu_bind = CpuMode::share;
  CHECK(choose_cpu_mode(options, {}, 8).mode == CpuMode::share);
  options = {};
  options.numa_binding = CpuMode::socket;
  CHECK(choose_cpu_mode(options, {}, 1).mode == CpuMode::socket);
  CHECK(choose_cpu_mode(options, tasks, 1).mode == CpuMode::none);
  CHECK_FALSE(choose_cpu_mode(options, tasks, 1).note.empty());
}
