#include <algorithm>

#include "launcher/options/options.hpp"
#include "launcher/place/topology.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using rendezvous::RunNames;

namespace {

Environment const kStep{{"SLURM_CLUSTER_NAME", "big"}, {"SLURM_JOB_ID", "7"}};

JobTopology of_step(std::string const& step = "7.0") {
  JobTopology topology;
  topology.source = JobTopology::Source::slurm;
  topology.run_id = topology.step = step;
  topology.meeting.ports = {20001, 20002};
  return topology;
}

JobTopology by_flags(std::string const& id, std::vector<std::uint16_t> ports = {29400}) {
  JobTopology topology;
  topology.source = JobTopology::Source::flags;
  topology.run_id = id;
  topology.meeting.ports = std::move(ports);
  return topology;
}

Options with_id(std::string const& id) {
  Options options;
  options.rdzv_id = id;
  return options;
}

/// Whether an agent that looks for the first names accepts a key that was opened under the second.
bool finds(RunNamesOf const& one, RunNames const& other) {
  return std::any_of(one.looks_for.begin(), one.looks_for.end(),
                     [&](auto const& name) { return std::find(other.begin(), other.end(), name) != other.end(); });
}

}  // namespace

TEST_CASE("run names: agents of one step find each other, whatever --rdzv-id says, and those of others never",
          "[unit]") {
  auto const mine = run_names(of_step(), {}, kStep);
  CHECK(mine.opens == RunNames{"step 7.0 of big"});
  CHECK(finds(mine, run_names(of_step(), with_id("a"), kStep).opens));
  CHECK_FALSE(finds(mine, run_names(of_step("7.1"), {}, kStep).opens));
  CHECK_FALSE(finds(mine, run_names(of_step("7.0.1"), {}, kStep).opens));  // queued again
  CHECK_FALSE(finds(mine, run_names(of_step(), {}, {{"SLURM_CLUSTER_NAME", "small"}, {"SLURM_JOB_ID", "7"}}).opens));
  CHECK_FALSE(finds(mine, run_names(by_flags("7.0"), with_id("7.0"), {}).opens));
}

TEST_CASE("run names: agents that flags describe go by --rdzv-id, in one Slurm job or in several", "[unit]") {
  auto const mine = run_names(by_flags("train"), with_id("train"), kStep);
  CHECK(finds(mine, run_names(by_flags("train"), with_id("train"), {}).opens));
  CHECK_FALSE(finds(mine, run_names(by_flags("other"), with_id("other"), kStep).opens));
  CHECK(finds(run_names(by_flags("none"), {}, {}), run_names(by_flags("none"), {}, {}).opens));
}

TEST_CASE("run names: a step that meets at a port of its own takes agents of that id from outside", "[unit]") {
  auto step = of_step();
  step.run_id = "train";
  step.meeting.ports = {29400};
  auto const names = run_names(step, with_id("train"), kStep);
  CHECK(names.opens == RunNames{"step 7.0 of big", "run train"});
  CHECK(finds(run_names(by_flags("train"), with_id("train"), {}), names.opens));
}

TEST_CASE("run names: the rendezvous of a job is found by its steps, and one of any job at a port that was agreed on",
          "[unit]") {
  RunNames const of_job{name_of_job(kStep)};
  CHECK(of_job == RunNames{"job big-7"});
  CHECK(finds(run_names(of_step(), {}, kStep), of_job));
  CHECK_FALSE(finds(run_names(of_step(), {}, {{"SLURM_CLUSTER_NAME", "big"}, {"SLURM_JOB_ID", "8"}}), of_job));
  Environment again = kStep;
  again.emplace("SLURM_RESTART_COUNT", "1");
  CHECK_FALSE(finds(run_names(of_step(), {}, again), of_job));
  CHECK(name_of_job({}).empty());

  RunNames const of_port{name_of_port(29400)};
  CHECK(finds(run_names(by_flags("train"), with_id("train"), {}), of_port));
  CHECK_FALSE(finds(run_names(by_flags("train", {29401}), with_id("train"), {}), of_port));
  CHECK_FALSE(finds(run_names(by_flags("none"), {}, {}), of_port));
  CHECK_FALSE(finds(run_names(of_step(), with_id("train"), kStep), of_port));
}

TEST_CASE("run names: who is added goes by the run that it was told of, and not by the job that it is in", "[unit]") {
  auto added = by_flags("6.0", {20001});
  added.source = JobTopology::Source::join;
  CHECK(run_names(added, {}, kStep).looks_for == RunNames{"run 6.0"});
}
