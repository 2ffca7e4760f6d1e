#include "launcher/hangs/python_stack.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)

TEST_CASE("python_stack: the signal is in the file's name, and no other file is taken for it", "[unit]") {
  CHECK(stack_signal("/memfd:cxxrun-stacks-47 (deleted)") == 47);
  CHECK(stack_signal("/memfd:cxxrun-stacks-47") == 47);
  CHECK(stack_signal("/memfd:cxxrun-stacks- (deleted)") == 0);
  CHECK(stack_signal("/memfd:cxxrun-stacks-0 (deleted)") == 0);
  CHECK(stack_signal("/memfd:cxxrun-stacks-65 (deleted)") == 0);
  CHECK(stack_signal("/memfd:cxxrun-stacks--9 (deleted)") == 0);
  CHECK(stack_signal("/memfd:cxxrun-stacks-99999999999 (deleted)") == 0);
  CHECK(stack_signal("/home/someone/memfd:cxxrun-stacks-47") == 0);
  CHECK(stack_signal("socket:[47]") == 0);
}
