#include "src/base/core/tcp_ends.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

TEST_CASE("tcp_ends: an end is text and back, IPv4 within IPv6 as IPv4", "[unit]") {
  for (auto const* const text : {"10.1.2.3:40112", "127.0.0.1:1", "[fd00::1]:65535", "[::1]:0"}) {
    auto const end = parse_end(text);
    REQUIRE(end);
    CHECK(end_text(*end) == text);
  }
  CHECK(parse_end("[::ffff:10.1.2.3]:7") == parse_end("10.1.2.3:7"));
  CHECK(address_text(*parse_end("[::ffff:10.1.2.3]:7")) == "10.1.2.3");
  for (auto const* const text :
       {"", "10.1.2.3", "10.1.2.3:", "10.1.2.3:65536", "fd00::1:7", "node1:7", "[fd00::1", ":7"}) {
    CHECK_FALSE(parse_end(text));
  }
}

TEST_CASE("tcp_ends: loopback is told in both families", "[unit]") {
  CHECK(is_loopback(*parse_end("127.0.0.1:1")));
  CHECK(is_loopback(*parse_end("127.9.9.9:1")));
  CHECK(is_loopback(*parse_end("[::1]:1")));
  CHECK_FALSE(is_loopback(*parse_end("10.0.0.127:1")));
  CHECK_FALSE(is_loopback(*parse_end("[7f00::1]:1")));
}

TEST_CASE("tcp_ends: a line of /proc/net/tcp or tcp6 is read whole or not at all", "[unit]") {
  std::string const v4 =
      "   3: 0302010A:9CB0 0102010A:733C 01 00000000:00000000 00:00000000 00000000  1500        0 20137 1 0 20 4 30 10 "
      "-1";
  CHECK(parse_socket_line(v4) ==
        SeenSocket{{*parse_end("10.1.2.3:40112"), *parse_end("10.1.2.1:29500")}, true, 1500, 20137});
  std::string const v6 =
      "   4: 000000FD000000000000000001000000:9CB0 0000000000000000FFFF00000102010A:733C 06 00000000:00000000 "
      "03:00000F9E 00000000     0        0 0 3 0";
  auto const seen = parse_socket_line(v6);
  REQUIRE(seen);
  CHECK(end_text(seen->ends.caller) == "[fd00::1]:40112");
  CHECK(end_text(seen->ends.called) == "10.1.2.1:29500");
  CHECK_FALSE(seen->established);
  CHECK(seen->inode == 0);
  CHECK_FALSE(
      parse_socket_line("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid "
                        " timeout inode"));
  for (std::size_t size = 0; size < v4.find("20137"); ++size) {
    CHECK_FALSE(parse_socket_line(v4.substr(0, size)));
  }
}

TEST_CASE("tcp_ends: who shows as everybody cannot tell users apart", "[unit]") {
  CHECK(tells_users_apart(1500, 65534, "         0          0 4294967295\n"));
  CHECK(tells_users_apart(65534, 65534, "         0          0 4294967295\n"));  // no namespace
  CHECK(tells_users_apart(0, 65534, "0 1500 1\n"));                              // a container without root
  CHECK_FALSE(tells_users_apart(65534, 65534, ""));                              // a namespace without a map
  CHECK_FALSE(tells_users_apart(65534, 65534, "0 100000 65536\n"));  // nobody, and all users outside the namespace
}
