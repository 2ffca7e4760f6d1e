#include "src/base/os/log.hpp"

#include <cstdlib>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/sanitized.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

TEST_CASE("log: without memory a line is lost, and the process lives", "[process]") {
  if (test::kSanitized) {
    return;  // a sanitizer ends a process that has no memory left
  }
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::string const line(4096, 'x');
    log_setup("test", Level::error);
    rlimit const none{0, 0};
    (void)::setrlimit(RLIMIT_AS, &none);
    for (std::size_t size = 1U << 20U; size > 0; size /= 2) {
      while (std::malloc(size) != nullptr) {  // NOLINT: nothing is to be left
      }
    }
    log(Level::error, line);
    ::_exit(7);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}
