#include "src/base/os/path_probe.hpp"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/wait.h>

#include "tests/support/catch.hpp"
#include "tests/support/process_bench.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<os::SeenPath> probed(std::vector<std::string> const& paths) {
  auto const probe = os::start_probe(paths);
  REQUIRE(probe);
  REQUIRE(waitpid(probe->pid, nullptr, 0) == probe->pid);
  return os::read_probe(*probe);
}

}  // namespace

TEST_CASE("path probe: what answers, what is not there, what a program's file is", "[process]") {
  test::TempDir const directory;
  auto const seen = probed({directory.path(), directory.file("gone"), "/bin/sh"});
  REQUIRE(seen.size() == 3);
  CHECK(seen[0].error == 0);
  CHECK(seen[1].error == ENOENT);
  CHECK(seen[2].error == 0);
}

TEST_CASE("path probe: a child that looks holds no descriptor of ours", "[process]") {
  auto pipe = test::make_pipe();
  auto const probe = os::start_probe(std::vector<std::string>(5000, "/"));
  REQUIRE(probe);
  pollfd first{probe->output.get(), POLLIN, 0};
  REQUIRE(poll(&first, 1, static_cast<int>(std::chrono::milliseconds(test::kGuard).count())) == 1);
  pipe.writer.reset();
  pollfd ended{pipe.reader.get(), POLLIN, 0};
  CHECK(poll(&ended, 1, 0) == 1);  // it has begun to look, and so has closed its copy
  kill(probe->pid, SIGKILL);
  REQUIRE(waitpid(probe->pid, nullptr, 0) == probe->pid);
}
