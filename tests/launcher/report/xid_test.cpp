#include "launcher/report/xid.hpp"

#include "tests/support/catch.hpp"

namespace {

std::string explained(std::string_view log) {
  auto const found = cxxrun::launcher::explain_xids(log);
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
    CHECK(text.find(", which a program causes, not the GPU") != std::string::npos);
  }
  CHECK(explained(program) ==
        "GPU 0000:18:00: Xid 31 (illegal address on the GPU), which a program causes, not the GPU");
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
