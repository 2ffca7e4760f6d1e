#include <algorithm>

#include "launcher/plan/worker_plan.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using std::chrono_literals::operator""ms;

namespace {

rendezvous::WorkerExit ended(ExitStatus status, std::string tail) {
  rendezvous::WorkerExit exit;
  exit.status = status;
  exit.stderr_tail = std::move(tail);
  return exit;
}

}  // namespace

TEST_CASE("health check: a shell command with the inherited variables and four of ours", "[unit]") {
  rendezvous::Generation generation;
  generation.number = 3;
  generation.local_size = 8;
  Options options;
  options.health_check = "nvidia-smi -L | grep -c GPU";
  auto const check = plan_check(generation, options, {"node1", 4, 8, "/logs", "7.0"}, {{"A", "b"}});
  CHECK(check.argv == std::vector<std::string>{"/bin/sh", "-c", "nvidia-smi -L | grep -c GPU"});
  CHECK(check.environment == std::vector<std::string>{"A=b", "CXXRUN_GENERATION=3", "CXXRUN_HOST=node1",
                                                      "CXXRUN_RUN_ID=7.0", "LOCAL_WORLD_SIZE=8"});
  CHECK(check.prefix == "[node1:health] ");
  CHECK(check.err == StreamPlan{"/logs/attempt_3/health.log", true});
  CHECK(check.out_is_err);
  CHECK(plan_check(generation, options, {"node1", 4, 8, "", "7.0"}, {}).err.file.empty());
}

TEST_CASE("health check: code 0 in time has passed, everything else says why", "[unit]") {
  CHECK(explain_check({ended(ExitStatus::exited(0), "fine")}, {}, {}).empty());
  CHECK(explain_check({ended(ExitStatus::exited(3), "a\nlast\n \n")}, {}, {}) == "health check: exit code 3: last");
  CHECK(explain_check({ended(ExitStatus::signalled(11), "")}, {}, {}) == "health check: signal 11 (SIGSEGV)");
  CHECK(explain_check({ended(ExitStatus::exited(0), "hm")}, {}, 1500ms) == "health check: still ran after 1.5 s: hm");
  CHECK(explain_check({ended(ExitStatus::exited(0), "")}, {"pid 7 (dd)"}, {}) ==
        "health check: survives SIGKILL: pid 7 (dd)");
  CHECK_FALSE(explain_check({}, {}, {}).empty());
}
