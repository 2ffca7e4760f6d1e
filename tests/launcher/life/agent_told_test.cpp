// What is said to whoever tells an agent to end.
#include <csignal>

#include "tests/support/agent_driver.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;
using namespace cxxrun::launcher::agent;
using namespace cxxrun::launcher::agent::testing;

namespace {

// Of three workers, `ended` of which have ended well.
Driver running(std::uint32_t ended = 0) {
  Driver agent;
  auto three = generation(1, agent.rank);
  three.local_size = 3;
  agent.hear(rdzv::Prepare{three, 100});
  agent.hear(rdzv::Start{1, agent.own(), 4000ms});
  for (std::uint32_t i = 0; i < ended; ++i) {
    agent.feed(WorkerEnded{1, {}});
  }
  return agent;
}

std::string said(Driver agent, EndSignal const& signal) {
  agent.feed(signal);
  return agent.reason;
}

}  // namespace

TEST_CASE("agent: whoever tells it to end hears for how many workers it waits, and how long", "[unit]") {
  CHECK(said(running(), {SIGTERM}) == "told to end by SIGTERM: waiting up to 30 s for 3 workers");
  CHECK(said(running(2), {SIGTERM, false}) == "told to end by SIGTERM: waiting up to 30 s for 1 worker");
  CHECK(said(running(1), {SIGINT, true, true}) ==
        "told to end by SIGINT: waiting up to 30 s for 2 workers; Ctrl-C again kills them");
  auto slurm = running();
  slurm.policy.end_timeout = 27'000ms;
  CHECK(said(running(), {SIGTERM, true, false, "from pid 7 (kill), uid 0"}) ==
        "told to end by SIGTERM from pid 7 (kill), uid 0: waiting up to 30 s for 3 workers");
  CHECK(said(slurm, {SIGTERM}) == "told to end by SIGTERM: waiting up to 27 s for 3 workers");
}

TEST_CASE("agent: nobody is told to wait where nobody is waited for", "[unit]") {
  CHECK(said(Driver(), {SIGTERM}) == "told to end by SIGTERM");
  CHECK(said(running(3), {SIGTERM}) == "told to end by SIGTERM");
  auto hasty = running();
  hasty.policy.end_timeout = 0ms;
  CHECK(said(hasty, {SIGINT, true, true}) == "told to end by SIGINT");
}

TEST_CASE("agent: a stop that is under way has its own deadline, and Ctrl-C still kills", "[unit]") {
  auto stopping = running();
  stopping.hear(rdzv::Stop{1, rdzv::StopKind::user, "node1 was told to end by SIGTERM"});
  CHECK(said(stopping, {SIGINT, true, true}) ==
        "told to end by SIGINT: workers are being stopped already; Ctrl-C again kills them");
}
