#include "launcher/report/failure_signs.hpp"

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
  CHECK(found.cause == "out of file descriptors: the limit is 1024 open files (ulimit -n)");
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

namespace {

std::string explained(std::string_view log) {
  auto const found = explain_xids(log);
  CHECK(found.cause.empty() == found.advice.empty());
  return found.cause;
}

}  // namespace

TEST_CASE("xid: a failed GPU is named with what its number means", "[unit]") {
  CHECK(explained("4,1180,2871,-;NVRM: GPU at PCI:0000:3b:00: GPU-4f0b\n"
                  "4,1181,2871,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus.\n") ==
        "GPU 0000:3b:00 failed: Xid 79 (it has fallen off the bus)");
  CHECK(explained("NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed") == "GPU 0000:3b:00 failed: Xid 154");
}

TEST_CASE("xid: what a program causes is not the GPU's fault, and a GPU's fault comes before it", "[unit]") {
  std::string const program = "6,1,2,-;NVRM: Xid (PCI:0000:18:00): 31, pid=99, name=python3, Ch 00000008\n";
  for (int const number : {13, 31, 43, 45, 68, 109}) {
    auto const text = explained("NVRM: Xid (PCI:0000:18:00): " + std::to_string(number) + ", pid=99");
    CHECK(text.find(", caused by a program, not by the GPU") != std::string::npos);
  }
  CHECK(explained(program) ==
        "GPU 0000:18:00: Xid 31 (illegal address on the GPU), caused by a program, not by the GPU");
  CHECK(explained(program + "NVRM: Xid (PCI:0000:3b:00): 48, x\n") ==
        "GPU 0000:3b:00 failed: Xid 48 (memory error that cannot be corrected)");
}

TEST_CASE("xid: other records and broken ones say nothing", "[unit]") {
  CHECK(explained("").empty());
  CHECK(explained("6,1,2,-;usb 1-1: new device\n").empty());
  CHECK(explained("NVRM: Xid (PCI:0000:3b:00").empty());
  CHECK(explained("NVRM: Xid (PCI:0000:3b:00): x, y").empty());
  CHECK(explained("NVRM: Xid (PCI:0000:3b:00): 99999999999999, y").empty());
}

TEST_CASE("death: the signs in stderr are whole phrases", "[unit]") {
  CHECK(signs_in("DataLoader worker (pid 7) exited unexpectedly with exit code 1").helper.empty());
  CHECK(signs_in("DataLoader worker (pid(s) 7, 8) exited unexpectedly").helper.empty());
  CHECK(signs_in("DataLoader worker (pid 7) is killed by signal: Killed.").helper == "7");
  CHECK(signs_in("raise Error(f'DataLoader worker (pid {pid}) is killed by signal: Killed.')\n"
                 "Error: DataLoader worker (pid 7) is killed by signal: Killed.")
            .helper == "7");
  CHECK(signs_in("No space left on device: 'a b'\nmore").disk_path == "a b");
  CHECK(signs_in("No space left on device\n: 'a b'").disk_path.empty());
  CHECK(signs_in("No space left on device: 'unended").disk_path == "unended");
  CHECK_FALSE(signs_in("").disk_full);
}

TEST_CASE("death: the path that is full is the one that the line names, wherever it stands", "[unit]") {
  auto const path = [](std::string const& line) { return signs_in("/before/it: 1\n" + line + "\nmore").disk_path; };
  CHECK(path("dd: error writing '/x': No space left on device") == "/x");
  CHECK(path("cp: error writing 'a b/c': No space left on device") == "a b/c");
  CHECK(path("mkdir: cannot create directory ‘/x/y’: No space left on device") == "/x/y");
  CHECK(path("rsync: [receiver] write failed on \"/x/f\": No space left on device (28)") == "/x/f");
  CHECK(path("bash: /x/out: No space left on device") == "/x/out");
  CHECK(path("/x/out: No space left on device") == "/x/out");
  CHECK(path("sh: 1: can't create /x/out: No space left on device") == "/x/out");
  CHECK(path("write /x/ckpt.bin: no space left on device") == "/x/ckpt.bin");
  CHECK(path("OSError: [Errno 28] No space left on device: '/from' -> '/to'") == "/to");
  CHECK(path("filesystem error: cannot copy file: No space left on device [/from] [/to]") == "/to");
  CHECK(path("(filename = '/x/a.h5', errno = 28, error message = 'No space left on device')") == "/x/a.h5");
  CHECK(path("cp: error writing '/home/me/a': Disk quota exceeded") == "/home/me/a");
  CHECK(path("write /home/me/ckpt.bin: disk quota exceeded") == "/home/me/ckpt.bin");
  CHECK(path("echo: write error: No space left on device").empty());
  CHECK(path("OSError: [Errno 28] No space left on device").empty());
  CHECK(path("No space left on device").empty());
}
