#include "rendezvous/trust/seal.hpp"

#include "tests/rendezvous/trust/keys.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::key_of;

TEST_CASE("seal: frames open in their order, empty and long ones too", "[unit]") {
  Sealer sealer(key_of(1));
  Opener opener(key_of(1));
  for (std::string const& plain : {std::string("a"), std::string(), std::string(100'000, 'x'), std::string("a")}) {
    auto const sealed = sealer.seal(plain);
    CHECK(sealed.size() == plain.size() + kSealBytes);
    CHECK(opener.open(sealed) == plain);
  }
}

TEST_CASE("seal: the same words are sealed differently each time", "[unit]") {
  Sealer sealer(key_of(1));
  CHECK(sealer.seal("yes") != sealer.seal("yes"));
}

TEST_CASE("seal: what is not the next frame does not open, and nothing after it does", "[unit]") {
  Sealer sealer(key_of(1));
  std::string const first = sealer.seal("first");
  std::string const second = sealer.seal("second");
  auto const refuses = [&](std::string const& frame) {
    Opener opener(key_of(1));
    CHECK_FALSE(opener.open(frame));
    CHECK_FALSE(opener.open(first));
  };
  refuses(second);                           // one left out
  refuses("");                               // cut
  refuses(first.substr(0, kSealBytes - 1));  // cut
  refuses(first.substr(0, first.size() - 1));
  refuses(first + "x");
  refuses(Sealer(key_of(2)).seal("first"));
  for (std::size_t bit = 0; bit < first.size() * 8; ++bit) {
    auto altered = first;
    altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << (bit % 8)));
    refuses(altered);
  }
  Opener opener(key_of(1));
  CHECK(opener.open(first) == "first");
  CHECK_FALSE(opener.open(first));  // repeated
}
