#include "launcher/view/metrics.hpp"

#include <algorithm>
#include <sstream>

#include "launcher/view/figures.hpp"
#include "tests/launcher/view/table_of.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                  // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::view;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
namespace live = cxxrun::launcher::live;

namespace {

/// The lines of one metric, without its name and the label of the run.
std::vector<std::string> samples(std::string const& text, std::string const& name) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  std::string const start = "cxxrun_" + name + "{run=\"4711.0\"";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(start)) {
      found.push_back(line.substr(start.size()));
    }
  }
  return found;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("metrics: what a job that trains says") {
  auto table = table_of(1, 2);
  table.members[0].workers[1].per_step = 2050ms;
  table.slow.push_back(slow_rank(1));
  auto const text = metrics_text(table, false);
  CHECK(samples(text, "job_info") == Lines{R"(,program="train.py",coordinator="node0"} 1)"});
  CHECK(samples(text, "state") == Lines{R"(,state="waiting"} 0)", R"(,state="starting"} 0)", R"(,state="running"} 1)",
                                        R"(,state="stopping"} 0)", R"(,state="over"} 0)"});
  CHECK(samples(text, "well") == Lines{"} 1"});
  CHECK(samples(text, "job_age_seconds") == Lines{"} 7985"});
  CHECK(samples(text, "generation_age_seconds") == Lines{"} 2470.5"});
  CHECK(samples(text, "restarts_total") == Lines{"} 1"});
  CHECK(samples(text, "restarts_limit") == Lines{"} 3"});
  CHECK(samples(text, "step") == Lines{"} 12480"});
  CHECK(samples(text, "last_step_age_seconds") == Lines{"} 0.7"});
  CHECK(samples(text, "step_seconds") == Lines{R"(,stat="median"} 2.05)", R"(,stat="slowest"} 2.05)"});
  CHECK(samples(text, "rank_late_seconds") == Lines{R"(,rank="1",host="node1",source="ddp"} 0.31)"});
  CHECK(samples(text, "node_last_pulse_age_seconds") == Lines{R"(,host="node0"} 0.4)"});
  CHECK(samples(text, "rank_resident_bytes")[1] == R"(,rank="1",host="node0"} 92274688000)");
  CHECK(samples(text, "rank_cpu_ratio")[0] == R"(,rank="0",host="node0"} 0.97)");
  CHECK(text.find("# TYPE cxxrun_restarts_total counter\n") != std::string::npos);
}

TEST_CASE("metrics: what the time was spent on, as far as it is known") {
  auto const text = metrics_text(accounted(table_of(1, 1)), false);
  CHECK(samples(text, "spent_seconds_total") == Lines{R"(,on="waiting"} 0)", R"(,on="startup"} 110.9)",
                                                      R"(,on="training"} 7200)", R"(,on="checkpoint"} 0)",
                                                      R"(,on="lost"} 551)", R"(,on="stopping"} 0)"});
  CHECK(samples(text, "goodput_ratio") == Lines{"} 0.901"});
  CHECK(samples(text, "checkpoint_age_seconds") == Lines{"} 724"});
  CHECK(samples(text, "nodes_lost_total") == Lines{"} 1"});
  CHECK(samples(text, "build_info").size() == 1);
  auto const without = metrics_text(table_of(1, 1), false);
  for (auto const* const name :
       {"spent_seconds_total", "goodput_ratio", "checkpoint_age_seconds", "nodes_lost_total"}) {
    CHECK(samples(without, name).empty());
  }
}

TEST_CASE("metrics: of GPUs there is what is known") {
  auto table = table_of(1, 3);
  table.members[0].workers[1].gpu = live::Gpu{4, 97, 1290, 1980, live::Throttle::heat};
  table.members[0].workers[2].gpu = live::Gpu{5, 100, 1980, 1980, live::Throttle::none};
  auto const text = metrics_text(table, false);
  CHECK(samples(text, "rank_gpu_ratio") == Lines{R"(,rank="1",host="node0"} 0.97)", R"(,rank="2",host="node0"} 1)"});
  CHECK(samples(text, "gpu_throttled") == Lines{R"(,rank="1",host="node0",why="heat"} 1)"});
}

TEST_CASE("metrics: each metric is explained once, and none without a sample is named") {
  Table table;
  table.run_id = "4711.0";
  table.phase = "waiting";
  for (auto const& each : {table, table_of(3, 2), accounted(table_of(3, 2))}) {
    auto const text = metrics_text(each, false);
    std::istringstream lines(text);
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("# TYPE ")) {
        auto const name = line.substr(7, line.find(' ', 7) - 7);
        CHECK(std::find(names.begin(), names.end(), name) == names.end());
        CHECK(text.find("\n" + name + "{") != std::string::npos);
        names.push_back(name);
      }
    }
  }
  CHECK(samples(metrics_text(table, false), "well") == Lines{"} 0"});
}

TEST_CASE("metrics: thousands of ranks are as many series only where that is asked for") {
  auto const table = table_of(100, 8);
  CHECK(samples(metrics_text(table, false), "rank_step").size() == kFurthest);
  CHECK(samples(metrics_text(table, true), "rank_step").size() == 800);
  CHECK(samples(metrics_text(table, false), "node_last_pulse_age_seconds").size() == 100);
}

TEST_CASE("metrics: a name cannot end its label or its line") {
  auto table = table_of(1, 1);
  table.members[0].host = "a\"} 1\nevil{x=\"\\\xc3\xa4";
  auto const text = metrics_text(table, false);
  CHECK(samples(text, "rank_step") == Lines{R"(,rank="0",host="a\"} 1\nevil{x=\"\\??"} 12480)"});
  CHECK(text.find("\nevil") == std::string::npos);
}
