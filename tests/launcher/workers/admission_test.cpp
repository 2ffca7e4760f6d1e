#include "launcher/workers/admission.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)

namespace {

/// Workers are the processes 100 and 101, and, which must never be asked for, 0 and -1.
std::optional<std::uint32_t> who(pid_t pid) {
  switch (pid) {
    case 100: return 0;
    case 101: return 1;
    case 0:
    case -1: return 7;
    default: return std::nullopt;
  }
}

std::optional<std::uint32_t> worker_of(pid_t pid, pid_t session) {
  return cxxrun::launcher::worker_of({pid, session, ""}, who);
}

}  // namespace

TEST_CASE("admission: a process is of the worker that it is, or in whose session it is", "[unit]") {
  CHECK(worker_of(100, 100) == 0U);
  CHECK(worker_of(555, 101) == 1U);
  CHECK_FALSE(worker_of(555, 555));
  CHECK_FALSE(worker_of(555, 99));
}

TEST_CASE("admission: what has no number here is nobody's, nor is who is gone", "[unit]") {
  CHECK_FALSE(worker_of(0, 0));
  CHECK_FALSE(worker_of(0, 100));  // getsid(0) would be our own session, whoever calls
  CHECK_FALSE(worker_of(555, 0));
  CHECK_FALSE(worker_of(555, -1));
  CHECK_FALSE(worker_of(-1, -1));
}

TEST_CASE("admission: what a wrapper moves into another session is of the worker that it descends from", "[unit]") {
  CHECK(cxxrun::launcher::worker_of({555, 555, "", {554, 101, 50}}, who) == 1U);
  CHECK_FALSE(cxxrun::launcher::worker_of({555, 555, "", {554, 50, 1}}, who));
  CHECK_FALSE(cxxrun::launcher::worker_of({0, 0, "", {100}}, who));
}

TEST_CASE("admission: an orphan of this agent is of the worker that its environment names, and no stranger is",
          "[unit]") {
  CHECK(worker_named({555, 555, "", {554, 50}, true, 101}, who) == 1U);
  CHECK_FALSE(worker_named({555, 555, "", {554, 51}, false, 101}, who));  // whatever it says of itself
  CHECK_FALSE(worker_named({555, 555, "", {554, 50}, true, 0}, who));
  CHECK_FALSE(worker_named({555, 555, "", {554, 50}, true, 102}, who));  // has ended
  CHECK_FALSE(worker_named({0, 0, "", {}, true, 101}, who));
}

TEST_CASE("admission: an environment names a worker of this agent, not of another one", "[unit]") {
  using namespace std::string_literals;
  CHECK(rank_of_agent("LOCAL_RANK=1\0RANK=9\0CXXRUN_AGENT=/tmp/a\0"s, "/tmp/a") == 9U);
  CHECK(rank_of_agent("CXXRUN_PROVER=/tmp/a\0RANK=1\0"s, "/tmp/a") == 1U);
  CHECK_FALSE(rank_of_agent("RANK=1\0CXXRUN_AGENT=/tmp/b\0"s, "/tmp/a"));
  CHECK_FALSE(rank_of_agent("RANK=1\0"s, "/tmp/a"));
  CHECK_FALSE(rank_of_agent("RANK=x\0CXXRUN_AGENT=/tmp/a\0"s, "/tmp/a"));
  CHECK_FALSE(rank_of_agent("", ""));
}

TEST_CASE("admission: who is refused is told why, and what to do instead", "[unit]") {
  CHECK(no_worker({555, 555, "", {1}}).find("what a daemon starts") != std::string::npos);
  CHECK(no_worker({555, 555, "", {50}, true}).find("podman run --env-host") != std::string::npos);
  CHECK(no_worker({}).find("PID namespace") != std::string::npos);
}

TEST_CASE("admission: one process of each worker is let in, for the generation that runs", "[unit]") {
  CHECK(why_not({1, 0, 3, 3}, {}).empty());
  CHECK(why_not({std::nullopt, 0, 3, 3}, {555, 555, ""}) == no_worker({555, 555, ""}));
  CHECK(why_not({1, 0, 2, 3}, {}) == "it is of generation 2, and this is generation 3");
  CHECK(why_not({1, 555, 3, 3}, {}) == "pid 555 is registered in its place");
}

TEST_CASE("admission: the log says who is refused and why", "[unit]") {
  CHECK(refusal_line({555, 555, "python3"}, std::nullopt, "no") == "pid 555 (python3) is refused as worker: no");
  CHECK(refusal_line({556, 100, "a\nb"}, 1, "no") == "pid 556 (a?b) is refused as worker of local rank 1: no");
}
