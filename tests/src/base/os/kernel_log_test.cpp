#include <fstream>

#include "src/base/os/process_limits.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_bench.hpp"

using cxxrun::os::KernelLog;

TEST_CASE("kernel log: what was logged since, and once", "[process]") {
  cxxrun::test::TempDir const directory;
  std::string const path = directory.file("kmsg");
  std::ofstream(path) << "4,1,1,-;before\n";
  KernelLog log(path.c_str());
  CHECK(log.read_new().empty());
  std::ofstream(path, std::ios::app) << "4,2,2,-;NVRM: Xid\n";
  CHECK(log.read_new() == "4,2,2,-;NVRM: Xid\n");
  CHECK(log.read_new().empty());
}

TEST_CASE("kernel log: one that cannot be opened is empty", "[process]") {
  CHECK(KernelLog("/nowhere/kmsg").read_new().empty());
  KernelLog real;  // it may be refused; it must neither block nor fail
  static_cast<void>(real.read_new());
}
