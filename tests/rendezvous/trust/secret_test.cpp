#include "rendezvous/trust/secret.hpp"

#include <algorithm>
#include <set>

#include "src/base/os/random.hpp"
#include "tests/rendezvous/trust/keys.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::key_of;

TEST_CASE("secret: white space around it does not count, and 32 bytes have to be left", "[unit]") {
  std::string const text = "7d3f0a91c5e86b24d07e19f5a2c8b643";
  auto const secret = read_secret(text);
  REQUIRE(secret);
  CHECK(*read_secret(" \n" + text + "\r\n") == *secret);
  CHECK_FALSE(*read_secret(text + "r") == *secret);
  CHECK(read_secret(text.substr(1) + "   \n").error().message().starts_with("it has 31 bytes and needs 32"));
  CHECK_FALSE(read_secret(""));
  CHECK_FALSE(read_secret(" \n"));
}

TEST_CASE("secret: what anybody sees not to be random is refused, and what is random is not", "[unit]") {
  for (std::string const& text :
       {std::string(32, '0'), std::string(32, '\0'), std::string("passwordpasswordpasswordpassword"),
        std::string("0123456789abcdef0123456789abcdef"), std::string("abcdefghijklmnopqrstuvwxyz0123456789"),
        std::string("correct-horse-correct-horse-correct-horse"), std::string("ababababcdcdcdcdababababefefefef")}) {
    CAPTURE(text);
    auto const refused = read_secret(text);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().message() == "it is not random, so others can guess it; make it with `openssl rand -hex 32`");
  }
  for (int i = 0; i < 1000; ++i) {
    CHECK(read_secret(cxxrun::random_hex(64)));
  }
}

TEST_CASE("secret: words come out of their wrap under the same secret only", "[unit]") {
  WrapNonce nonce{};
  auto const wrapped = wrap(key_of(1), "words", nonce);
  CHECK(unwrap(key_of(1), wrapped) == "words");
  CHECK_FALSE(unwrap(key_of(2), wrapped));
  nonce.fill(3);
  CHECK(wrap(key_of(1), "words", nonce) != wrapped);
  CHECK_FALSE(unwrap(key_of(1), wrapped.substr(1)));
  CHECK_FALSE(unwrap(key_of(1), ""));
  for (std::size_t bit = 0; bit < wrapped.size() * 8; ++bit) {
    auto altered = wrapped;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << (bit % 8)));
    CHECK_FALSE(unwrap(key_of(1), altered));
  }
}

TEST_CASE("secret: hidden ports are part of the protocol, distinct, and of one secret and one run", "[unit]") {
  std::vector<std::uint16_t> const ports = {22953, 27004};
  auto const hidden = hidden_ports(key_of(1), ports);
  CHECK(hidden == std::vector<std::uint16_t>{22109, 27901, 28649, 24104, 25224, 29298, 23277, 25379});
  CHECK(std::set(hidden.begin(), hidden.end()).size() == kHiddenPorts);
  CHECK(std::all_of(hidden.begin(), hidden.end(), [](auto port) { return port >= 20000 && port <= 31986; }));
  CHECK(hidden_ports(key_of(2), ports) != hidden);
  CHECK(hidden_ports(key_of(1), {22953, 27005}) != hidden);
}
