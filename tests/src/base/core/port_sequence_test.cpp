#include "src/base/core/port_sequence.hpp"

#include <algorithm>
#include <set>

#include "tests/support/catch.hpp"

using cxxrun::port_sequence;

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
