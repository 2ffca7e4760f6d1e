#include "launcher/report/limit_signs.hpp"

#include <string>

#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)

namespace {

Limits usual() {
  Limits limits;
  limits.files = {1024, 4096};
  limits.tasks = {4096, 4096};
  return limits;
}

std::string cause(std::string const& said, Limits const& limits = usual()) {
  return explain_limits(said, limits).cause;
}

}  // namespace

TEST_CASE("limit signs: a program without descriptors is told its limit and the command", "[unit]") {
  auto const found = explain_limits("OSError: [Errno 24] Too many open files: '/data/x'\n", usual());
  CHECK(found.cause == "no descriptor was left: the limit is 1024 open files (ulimit -n)");
  CHECK(found.advice == "raise it with `ulimit -n 4096` before cxxrun");
  CHECK(found.of_job);
}

TEST_CASE("limit signs: PyTorch's tensors that are descriptors have a way round", "[unit]") {
  for (std::string const said : {"RuntimeError: received 0 items of ancdata",
                                 "RuntimeError: unable to open shared memory object </torch_9_1> in read-write mode: "
                                 "Too many open files (24)"}) {
    CHECK(explain_limits(said, usual()).advice.ends_with("set_sharing_strategy('file_system') needs fewer"));
  }
}

TEST_CASE("limit signs: a fork or thread that is refused is known in each program's words", "[unit]") {
  for (std::string const said :
       {"RuntimeError: can't start new thread",
        "OpenBLAS blas_thread_init: pthread_create failed for thread 50 of 64: Resource temporarily unavailable",
        "libgomp: Thread creation failed: Resource temporarily unavailable",
        "bash: fork: retry: Resource temporarily unavailable", "sh: 1: Cannot fork",
        "terminate called after throwing an instance of 'std::system_error'\n  what():  Resource temporarily "
        "unavailable",
        "    self.pid = os.fork()\nBlockingIOError: [Errno 11] Resource temporarily unavailable"}) {
    INFO(said);
    CHECK(cause(said) ==
          "no process or thread could be started: the limit is 4096 processes and threads of this user "
          "on this node (ulimit -u)");
  }
}

TEST_CASE("limit signs: a lock that is taken is no limit", "[unit]") {
  CHECK(cause("    fcntl.flock(f, LOCK_NB)\nBlockingIOError: [Errno 11] Resource temporarily unavailable").empty());
}

TEST_CASE("limit signs: memory that is missing at a fork is told with the limit, if there is one", "[unit]") {
  auto const said = "    os.fork()\nOSError: [Errno 12] Cannot allocate memory";
  CHECK(cause(said) == "no memory for another process or thread");
  CHECK(!explain_limits(said, usual()).of_job);
  auto limits = usual();
  limits.address_space.soft = 1U << 20U;
  CHECK(cause(said, limits).ends_with("(ulimit -v)"));
  CHECK(cause("MemoryError", limits).ends_with("(ulimit -v)"));
  CHECK(cause("MemoryError").empty());
  CHECK(cause("OSError: [Errno 12] Cannot allocate memory").empty());
}

TEST_CASE("limit signs: memory that InfiniBand may not lock is not memory that is missing", "[unit]") {
  auto limits = usual();
  std::string const said = "NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory";
  CHECK(cause(said, limits).empty());
  limits.locked.soft = 65536;
  CHECK(cause(said, limits) == "memory could not be locked: the limit is 64 KiB (ulimit -l)");
}

TEST_CASE("limit signs: a full /dev/shm is no full disk", "[unit]") {
  for (std::string const said :
       {"OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'",
        "RuntimeError: unable to write to file </torch_12_34>: No space left on device (28)",
        "misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-0 to 9637892 bytes"}) {
    CHECK(cause(said) == "/dev/shm is full");
  }
  CHECK(cause("OSError: [Errno 28] No space left on device: '/data/step'").empty());
}

TEST_CASE("limit signs: a file that is too large is one for the limit alone", "[unit]") {
  auto limits = usual();
  CHECK(cause("OSError: [Errno 27] File too large", limits).empty());
  limits.file_size.soft = 1U << 20U;
  CHECK(cause("OSError: [Errno 27] File too large", limits) ==
        "a file could not be written: the limit is 1 MiB per file (ulimit -f)");
}
