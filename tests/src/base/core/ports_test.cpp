#include "src/base/core/ports.hpp"

#include <algorithm>
#include <set>

#include "tests/support/catch.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)
using Ranges = std::vector<PortRange>;

TEST_CASE("port_sequence: the sequence is part of the protocol and never changes", "[unit]") {
  CHECK(port_sequence("", 2) == std::vector<std::uint16_t>{26206, 21552});
  CHECK(port_sequence("4711.0", 4) == std::vector<std::uint16_t>{22953, 27004, 31055, 23119});
}

TEST_CASE("port_sequence: all ports are distinct and below the ephemeral range", "[unit]") {
  auto const ports = port_sequence("12.3", 20'000);

  CHECK(std::set<std::uint16_t>(ports.begin(), ports.end()).size() == 11'987);
  CHECK(*std::min_element(ports.begin(), ports.end()) == 20'000);
  CHECK(*std::max_element(ports.begin(), ports.end()) == 31'986);
}

TEST_CASE("port_sequence: neighbouring steps do not start with the same ports", "[unit]") {
  std::set<std::uint16_t> first;
  for (int step = 0; step < 100; ++step) {
    first.insert(port_sequence("4711." + std::to_string(step), 1).front());
  }
  CHECK(first.size() > 95);
}

TEST_CASE("spare_ports: ranges are read as the kernel writes them", "[unit]") {
  CHECK(port_ranges("32768\t60999\n") == Ranges{{32768, 60999}});
  CHECK(port_ranges("8080,9000-9010,65535\n") == Ranges{{8080, 8080}, {9000, 9010}, {65535, 65535}});
  CHECK(port_ranges("\n").empty());
  CHECK(port_ranges("").empty());
  CHECK(port_ranges("99999999999, 7") == Ranges{{7, 7}});
}

TEST_CASE("spare_ports: none is a service's, reserved, handed out by the kernel or derived by a coordinator",
          "[unit]") {
  auto const all = spare_ports({{32768, 60999}, {12000, 12009}}, 7, 65535);

  CHECK(std::set<std::uint16_t>(all.begin(), all.end()).size() == all.size());
  CHECK(all.size() == 55536 - 28232 - 11987 - 10);
  for (std::uint16_t const port : all) {
    CHECK(port >= 10000);
    CHECK_FALSE((port >= 32768 && port <= 60999));
    CHECK_FALSE((port >= 12000 && port <= 12009));
    CHECK_FALSE((port >= kDerivedPorts.first && port <= kDerivedPorts.last));
  }
}

TEST_CASE("spare_ports: where the kernel hands out all, there are none", "[unit]") {
  CHECK(spare_ports({{1024, 65535}}, 7, 16).empty());
}

TEST_CASE("spare_ports: two that look at once try different ones", "[unit]") {
  CHECK(spare_ports({}, 1, 16).size() == 16);
  CHECK(spare_ports({}, 1, 16) != spare_ports({}, 2, 16));
}
