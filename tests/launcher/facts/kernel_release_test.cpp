#include "launcher/facts/kernel_release.hpp"

#include "tests/support/catch.hpp"

using cxxrun::launcher::kernel_too_old;

TEST_CASE("kernel_release: older than 4.18 by its number", "[unit]") {
  for (auto const* const old : {"2.6.32", "3.10.0-1160.el7", "4.4.0", "4.17.0-1", "4.9"}) {
    CHECK(kernel_too_old(old));
  }
  for (auto const* const fine : {"4.18.0-553.el8_10", "4.18-rc1", "4.19.0", "5.4.0", "6.1.0-18-amd64", "10.0"}) {
    CHECK(!kernel_too_old(fine));
  }
}

TEST_CASE("kernel_release: what is no version is not called old", "[unit]") {
  for (auto const* const none : {"", "5", "4.", "4.x", "linux", ".1"}) {
    CHECK(!kernel_too_old(none));
  }
}
