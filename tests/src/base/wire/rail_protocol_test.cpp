#include "src/base/wire/rail_protocol.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;
using wire::decode_farewell;
using wire::Farewell;

namespace {

Farewell some_farewell() {
  return {Farewell::What::failure, PeerFailure::Why::timeout, 3, "node3", fail(Errc::usage, "why not", 5)};
}

}  // namespace

TEST_CASE("a farewell arrives as it was sent, and only when it is complete") {
  std::string const bytes = encode_farewell(some_farewell());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    auto const part = decode_farewell(bytes.substr(0, size));
    REQUIRE(part);
    CHECK_FALSE(part->has_value());
  }
  auto const whole = decode_farewell(bytes + "more");
  REQUIRE(whole);
  CHECK(**whole == some_farewell());
}

TEST_CASE("a farewell with a long text is cut, one with nonsense is an error") {
  auto longest = some_farewell();
  longest.error.context = std::string(100'000, 'x');
  std::string bytes = encode_farewell(longest);
  CHECK(bytes.size() == wire::kMaxFarewell);
  CHECK(decode_farewell(bytes).value()->error.context.size() > 4000);
  for (std::size_t at = 0; at < 20; ++at) {  // whatever the fixed part says, nothing beyond the bytes is read
    for (int value : {0, 1, 127, 255}) {
      std::string damaged = encode_farewell(some_farewell());
      damaged[at] = static_cast<char>(value);
      auto const decoded = decode_farewell(damaged);
      CHECK((!decoded || !*decoded || (*decoded)->host.size() + (*decoded)->error.context.size() < damaged.size()));
    }
  }
  bytes[3] = '\x7f';  // the length
  CHECK(decode_farewell(bytes).error().code == Errc::protocol);
}
