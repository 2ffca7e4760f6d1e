#include "rendezvous/trust/key.hpp"

#include <set>

#include "tests/rendezvous/trust/keys.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::key_of;

TEST_CASE("key: another key, purpose or context gives another derived key", "[unit]") {
  std::set<Key::Bytes> const all = {derive(key_of(1), "a", "b").bytes(),  derive(key_of(2), "a", "b").bytes(),
                                    derive(key_of(1), "ab", "").bytes(),  derive(key_of(1), "", "ab").bytes(),
                                    derive(key_of(1), "a", "bb").bytes(), derive(key_of(1), "ab", "b").bytes()};
  CHECK(all.size() == 6);
  CHECK(derive(key_of(1), "a", "b") == derive(key_of(1), "a", "b"));
}

TEST_CASE("key: its id is not a part of it, and the same everywhere", "[unit]") {
  CHECK(id_of(key_of(1)) == id_of(key_of(1)));
  CHECK(id_of(key_of(1)) != id_of(key_of(2)));
  CHECK(id_of(key_of(7)) != KeyId{7, 7, 7, 7, 7, 7, 7, 7});
}

TEST_CASE("key: a proof holds for the same key and words only", "[unit]") {
  auto const proof = proof_of(key_of(1), "words");
  CHECK(proves(key_of(1), "words", proof));
  CHECK_FALSE(proves(key_of(2), "words", proof));
  CHECK_FALSE(proves(key_of(1), "word", proof));
  CHECK_FALSE(proves(key_of(1), "words", proof.substr(1)));
  CHECK_FALSE(proves(key_of(1), "words", ""));
  for (std::size_t i = 0; i < proof.size(); ++i) {
    auto altered = proof;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    CHECK_FALSE(proves(key_of(1), "words", altered));
  }
}
