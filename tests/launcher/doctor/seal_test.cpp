#include "launcher/doctor/seal.hpp"

#include "tests/support/catch.hpp"

using cxxrun::launcher::doctor::Seal;

// With MUNGE or without, whichever this machine has.
TEST_CASE("seal: nodes of one table read each other, and what is of another table or job is refused", "[process]") {
  auto const first = Seal::make("7.0");
  auto const second = Seal::take(first.greeting(), "7.0").value();
  CHECK(second.table() == first.table());
  CHECK(second.plain_because().empty() == first.plain_because().empty());
  CHECK(first.open(second.close("{\"a\": \"1\"}").value()).value() == "{\"a\": \"1\"}");
  CHECK_FALSE(Seal::take(first.greeting(), "7.1"));
  CHECK_FALSE(Seal::take("7.0", "7.0"));
  CHECK_FALSE(Seal::take("MUNGE:garbage:", "7.0"));
  CHECK_FALSE(first.open(Seal::make("7.0").close("{}").value()));
  CHECK_FALSE(first.open(""));
  if (first.plain_because().empty()) {
    CHECK_FALSE(first.open(first.table() + "{}"));  // anybody could have written that
    CHECK_FALSE(Seal::take(first.table() + "7.0", "7.0"));
  }
}
