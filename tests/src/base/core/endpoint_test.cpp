#include "src/base/core/endpoint.hpp"

#include "tests/support/catch.hpp"

using cxxrun::Endpoint;
using cxxrun::parse_endpoint;

TEST_CASE("endpoint: names, addresses and bracketed IPv6, with and without port", "[unit]") {
  CHECK(parse_endpoint("node-1.cluster").value() == Endpoint{"node-1.cluster", std::nullopt});
  CHECK(parse_endpoint("10.0.0.1:29400").value() == Endpoint{"10.0.0.1", 29400});
  CHECK(parse_endpoint("[fe80::1%eth0]:0").value() == Endpoint{"fe80::1%eth0", 0});
  CHECK(parse_endpoint("[::1]").value() == Endpoint{"::1", std::nullopt});
}

TEST_CASE("endpoint: each mistake has a line that names it", "[unit]") {
  auto const message = [](char const* text) { return parse_endpoint(text).error().context; };

  CHECK(message(":29400") == "':29400': the host is missing; write HOST:PORT");
  CHECK(message("") == "'': the host is missing; write HOST:PORT");
  CHECK(message("node1:70000") == "'node1:70000': '70000' is no port; ports are 0 to 65535");
  CHECK(message("node1:") == "'node1:': '' is no port; ports are 0 to 65535");
  CHECK(message("[::1]29400") == "'[::1]29400': '29400' is no port; ports are 0 to 65535");
  CHECK(message("::1") == "'::1': an IPv6 address needs brackets; write [::1]:PORT");
  CHECK(message("[::1") == "'[::1': the bracket is not closed; write [IPV6]:PORT");
  CHECK(message("[node1]:1") == "'[node1]:1': 'node1' is not a host name or address; write HOST:PORT");
  CHECK(message("tcp://node1:1") == "'tcp://node1:1': '//node1:1' is no port; ports are 0 to 65535");
  CHECK(message("no de:1") == "'no de:1': 'no de' is not a host name or address; write HOST:PORT");
}

TEST_CASE("endpoint: a number is no host, and only four of them are an address", "[unit]") {
  auto const message = [](char const* text) { return parse_endpoint(text).error().context; };

  CHECK(message("1234") ==
        "'1234': '1234' would be taken for the address 0.0.4.210, not for a name; write HOST:PORT, with a name or "
        "A.B.C.D");
  CHECK(message("127.1:29400").find("the address 127.0.0.1,") != std::string::npos);
  CHECK(message("0x7f000001:1").find("the address 127.0.0.1,") != std::string::npos);
  CHECK(message("010.0.0.1").find("the address 8.0.0.1,") != std::string::npos);
  CHECK_FALSE(cxxrun::parse_host("10.1").has_value());
  CHECK(parse_endpoint("10.0.0.1").has_value());
  CHECK(parse_endpoint("1234a").has_value());
  CHECK(parse_endpoint("0x7f-node.cluster:1").has_value());
  CHECK(parse_endpoint("1.2.3.4.5").has_value());
}

TEST_CASE("endpoint: a host alone has no port, and IPv6 needs no brackets", "[unit]") {
  CHECK(cxxrun::parse_host("::1").value() == "::1");
  CHECK(cxxrun::parse_host("[::1]").value() == "::1");
  CHECK(cxxrun::parse_host("node1").value() == "node1");
  CHECK_FALSE(cxxrun::parse_host("node1:80").has_value());
}

TEST_CASE("endpoint: what is loopback and what is a literal", "[unit]") {
  CHECK(cxxrun::is_loopback("LocalHost"));
  CHECK(cxxrun::is_loopback("127.9.9.9"));
  CHECK(cxxrun::is_loopback("::1"));
  CHECK_FALSE(cxxrun::is_loopback("127.example.org"));
  CHECK(cxxrun::is_ip_literal("fe80::1%eth0"));
  CHECK_FALSE(cxxrun::is_ip_literal("fe80::1%"));
  CHECK_FALSE(cxxrun::is_ip_literal("node1"));
  CHECK(cxxrun::endpoint_text("::1", 5) == "[::1]:5");
}

TEST_CASE("endpoint: short and full names of a host agree, prefixes do not", "[unit]") {
  CHECK(cxxrun::same_host_name("node1", "NODE1.cluster.local"));
  CHECK(cxxrun::same_host_name("node1.cluster", "node1"));
  CHECK_FALSE(cxxrun::same_host_name("node1", "node10"));
  CHECK_FALSE(cxxrun::same_host_name("node10", "node1"));
  CHECK_FALSE(cxxrun::same_host_name("node1.a", "node1.b"));
  CHECK_FALSE(cxxrun::same_host_name("10", "10.0.0.1"));
}
