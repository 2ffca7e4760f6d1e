#include "launcher/view/agents.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::view;  // NOLINT(google-build-using-namespace)

TEST_CASE("agents: of the kernel's unix sockets those that listen for packets and have a name are looked at") {
  std::string const table =
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "0000000000000000: 00000002 00000000 00010000 0005 01 1234 /tmp/cxxrun-a/0123456789abcdef\n"
      "0000000000000000: 00000002 00000000 00010000 0005 01 1235 @cxxrun-0123\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 1236 /run/stream\n"
      "0000000000000000: 00000003 00000000 00000000 0005 03 1237 /tmp/connected\n"
      "0000000000000000: 00000003 00000000 00010000 0005 01 1238\n"
      "0000000000000000: 00000002 00000000 00010000 0005 01 x /tmp/no-number\n";
  CHECK(listening_sockets(table) ==
        std::vector<ListeningSocket>{{1234, "/tmp/cxxrun-a/0123456789abcdef"}, {1235, "@cxxrun-0123"}});
  CHECK(listening_sockets("").empty());
}
