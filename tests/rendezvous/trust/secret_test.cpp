#include "rendezvous/trust/secret.hpp"

#include "tests/rendezvous/trust/keys.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::key_of;

TEST_CASE("secret: white space around it does not count, and 32 bytes have to be left", "[unit]") {
  std::string const text(32, 'r');
  auto const secret = read_secret(text);
  REQUIRE(secret);
  CHECK(*read_secret(" \n" + text + "\r\n") == *secret);
  CHECK_FALSE(*read_secret(text + "r") == *secret);
  CHECK(read_secret(std::string(31, 'r') + "   \n").error().message().starts_with("it has 31 bytes and needs 32"));
  CHECK_FALSE(read_secret(""));
  CHECK_FALSE(read_secret(" \n"));
}

TEST_CASE("secret: a key comes out of its wrap under the same secret only", "[unit]") {
  WrapNonce nonce{};
  auto const wrapped = wrap(key_of(1), key_of(9), nonce);
  CHECK(unwrap(key_of(1), wrapped) == key_of(9));
  CHECK_FALSE(unwrap(key_of(2), wrapped));
  nonce.fill(3);
  CHECK(wrap(key_of(1), key_of(9), nonce) != wrapped);
  CHECK_FALSE(unwrap(key_of(1), wrapped.substr(1)));
  for (std::size_t bit = 0; bit < wrapped.size() * 8; ++bit) {
    auto altered = wrapped;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << (bit % 8)));
    CHECK_FALSE(unwrap(key_of(1), altered));
  }
}
