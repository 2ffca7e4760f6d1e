#include "rendezvous/trust/handshake.hpp"

#include <vector>

#include "tests/rendezvous/trust/keys.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::key_of;
using cxxrun::test::nonce_of;

namespace {

KeyOffer answer() {
  return {nonce_of(2), id_of(key_of(9)), {{WrapKind::munge, "MUNGE:abc:"}, {WrapKind::secret, std::string(72, 's')}}};
}

}  // namespace

TEST_CASE("handshake: an answer is read as it was written", "[unit]") {
  auto const read = read_answer(write_answer(answer()));
  REQUIRE(read);
  CHECK(*read == answer());
  CHECK(*read_answer(write_answer({nonce_of(2), {}, {}})) == KeyOffer{nonce_of(2), {}, {}});
}

TEST_CASE("handshake: a wrap of a kind that is not known here is left out", "[unit]") {
  auto with = answer();
  with.wraps.insert(with.wraps.begin(), Wrap{static_cast<WrapKind>(99), "of another day"});
  CHECK(*read_answer(write_answer(with)) == answer());
}

TEST_CASE("handshake: what is cut short, too long, of another version or no handshake is refused by name", "[unit]") {
  auto const call = write_call({nonce_of(1), id_of(key_of(9))});
  CHECK(*read_call(call) == Call{nonce_of(1), id_of(key_of(9))});
  CHECK(read_call(call + "x").error().message() == "its handshake is too long");
  for (std::size_t size = 0; size < call.size(); ++size) {
    CHECK_FALSE(read_call(call.substr(0, size)));
  }
  auto const whole = write_answer(answer());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    auto const read = read_answer(whole.substr(0, size));
    CHECK((!read || read->wraps.size() < 2));
  }
  auto other = call;
  other[7] = 1;
  CHECK(read_call(other).error().message() ==
        "its handshake has version 1, this one has 2; use the same cxxrun on all nodes");
  CHECK(read_call(R"({"hello":"cxxrun"})").error().message() == "it does not speak cxxrun's handshake");
  CHECK_FALSE(read_answer(write_answer({nonce_of(2), {}, {{WrapKind::munge, std::string(5000, 'x')}}})));
  std::vector<Wrap> wraps(kMostWraps, Wrap{WrapKind::munge, "x"});  // each costs the receiver a thread
  CHECK(read_answer(write_answer({nonce_of(2), {}, wraps})));
  wraps.push_back({WrapKind::munge, "x"});
  CHECK_FALSE(read_answer(write_answer({nonce_of(2), {}, wraps})));
}

TEST_CASE("handshake: every byte of both frames is in the keys, and the directions differ", "[unit]") {
  auto const call = write_call({nonce_of(1), id_of(key_of(9))});
  auto const reply = write_answer(answer());
  auto const keys = channel_keys(key_of(9), call, reply);
  CHECK_FALSE(keys.caller == keys.called);
  CHECK(channel_keys(key_of(9), call, reply).caller == keys.caller);
  auto const differs = [&](std::string const& c, std::string const& r) {
    auto const others = channel_keys(key_of(9), c, r);
    CHECK_FALSE(others.caller == keys.caller);
    CHECK_FALSE(others.called == keys.called);
  };
  for (std::size_t i = 0; i < call.size(); ++i) {
    auto altered = call;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    differs(altered, reply);
  }
  for (std::size_t i = 0; i < reply.size(); ++i) {
    auto altered = reply;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    differs(call, altered);
  }
  CHECK_FALSE(channel_keys(key_of(8), call, reply).caller == keys.caller);
}
