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

TEST_CASE("admission: one process of each worker is let in, for the generation that runs", "[unit]") {
  CHECK(why_not({1, 0, 3, 3}).empty());
  CHECK(why_not({std::nullopt, 0, 3, 3}) == kNoWorker);
  CHECK(why_not({1, 0, 2, 3}) == "it is of generation 2, and this is generation 3");
  CHECK(why_not({1, 555, 3, 3}) == "pid 555 is registered in its place");
}

TEST_CASE("admission: the log says who is refused and why", "[unit]") {
  CHECK(refusal_line({555, 555, "python3"}, std::nullopt, "no") == "pid 555 (python3) is refused as worker: no");
  CHECK(refusal_line({556, 100, "a\nb"}, 1, "no") == "pid 556 (a?b) is refused as worker of local rank 1: no");
}
