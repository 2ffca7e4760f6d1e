#include "rendezvous/trust/secure_channel.hpp"

#include "tests/rendezvous/trust/keys.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::key_of;
using cxxrun::test::nonce_of;

namespace {

struct Ends {
  SecureChannel caller = SecureChannel::of_caller(nonce_of(1), id_of(key_of(9)));
  SecureChannel called = SecureChannel::of_called(key_of(9), nonce_of(2));

  /// Completes the handshake.
  void greet(Key const& callers_key = key_of(9)) {
    auto const back = called.on_frame(caller.call());
    auto const wants = caller.on_frame(std::get<SendBack>(back).frame);
    CHECK(std::get<WantsKey>(wants).offer.key == id_of(key_of(9)));
    caller.use_key(callers_key);
  }
};

std::string why(FrameResult const& heard) {
  auto const* const broken = std::get_if<Broken>(&heard);
  return broken == nullptr ? "" : broken->why;
}

}  // namespace

TEST_CASE("guard: both ends understand each other, and each knows that the other has the key", "[unit]") {
  Ends ends;
  CHECK_FALSE(ends.called.sealed());
  ends.greet();
  CHECK_FALSE(ends.called.proven());
  CHECK(std::get<Unsealed>(ends.called.on_frame(ends.caller.seal("hello"))).payload == "hello");
  CHECK(ends.called.proven());
  CHECK(std::get<Unsealed>(ends.caller.on_frame(ends.called.seal("welcome"))).payload == "welcome");
  CHECK(ends.caller.proven());
}

TEST_CASE("guard: who has another key is refused at its first frame, on both sides", "[unit]") {
  Ends ends;
  ends.greet(key_of(8));
  CHECK(why(ends.called.on_frame(ends.caller.seal("hello"))) == "it does not know this job's key");
  CHECK(why(ends.caller.on_frame(ends.called.seal("welcome"))) == "it does not know this job's key");
}

TEST_CASE("guard: a frame that is replayed, altered or sent back ends the connection", "[unit]") {
  Ends ends;
  ends.greet();
  auto const first = ends.caller.seal("hello");
  CHECK(std::holds_alternative<Unsealed>(ends.called.on_frame(first)));
  SECTION("replayed") {
    CHECK(why(ends.called.on_frame(first)) == "a frame was altered in transit");
  }
  SECTION("sent back") {
    CHECK(why(ends.caller.on_frame(first)) == "it does not know this job's key");
  }
  SECTION("in clear") {
    CHECK_FALSE(why(ends.called.on_frame(R"({"type":"ack"})")).empty());
  }
  SECTION("a handshake again") {
    CHECK_FALSE(why(ends.called.on_frame(ends.caller.call())).empty());
  }
}

TEST_CASE("guard: frames in another order, cut short or with one bit flipped end the connection", "[unit]") {
  Ends ends;
  ends.greet();
  auto const first = ends.caller.seal("first");
  auto const second = ends.caller.seal("second");
  CHECK(why(ends.called.on_frame(second)) == "it does not know this job's key");
  CHECK_FALSE(why(ends.called.on_frame(first)).empty());  // nothing opens after a bad frame
  Ends whole;
  whole.greet();
  CHECK(std::holds_alternative<Unsealed>(whole.called.on_frame(whole.caller.seal("first"))));
  auto const next = whole.caller.seal("next");
  SECTION("cut short") {
    CHECK(why(whole.called.on_frame(next.substr(0, next.size() - 1))) == "a frame was altered in transit");
  }
  SECTION("one bit flipped") {
    auto altered = next;
    altered[3] = static_cast<char>(altered[3] ^ 4);
    CHECK(why(whole.called.on_frame(altered)) == "a frame was altered in transit");
  }
}

TEST_CASE("guard: who stands between and strips a way to the key is left with frames that do not open", "[unit]") {
  SecureChannel caller = SecureChannel::of_caller(nonce_of(1));
  SecureChannel called = SecureChannel::of_called(key_of(9), nonce_of(2));
  CHECK(std::get<WantsWraps>(called.on_frame(caller.call())).call == id_of_call(caller.call()));
  auto offer = *read_answer(called.answer({{WrapKind::munge, "credential"}, {WrapKind::secret, "wrapped"}}));
  offer.wraps.erase(offer.wraps.begin() + GENERATE(0, 1));
  CHECK(std::get<WantsKey>(caller.on_frame(write_answer(offer))).offer.wraps.size() == 1);
  caller.use_key(key_of(9));
  CHECK(why(called.on_frame(caller.seal("hello"))) == "it does not know this job's key");
  CHECK(why(caller.on_frame(called.seal("welcome"))) == "it does not know this job's key");
}

TEST_CASE("guard: who calls with the run's key gets no wrap, and who calls with another one waits for it", "[unit]") {
  SecureChannel knows = SecureChannel::of_caller(nonce_of(1), id_of(key_of(9)));
  auto const back = SecureChannel::of_called(key_of(9), nonce_of(2)).on_frame(knows.call());
  CHECK(read_answer(std::get<SendBack>(back).frame)->wraps.empty());
  SecureChannel waits = SecureChannel::of_caller(nonce_of(1), id_of(key_of(8)));
  SecureChannel called = SecureChannel::of_called(key_of(9), nonce_of(2));
  CHECK(std::holds_alternative<WantsWraps>(called.on_frame(waits.call())));
  CHECK(why(called.on_frame(waits.call())) == "it sent a frame out of turn");
}

TEST_CASE("guard: a recorded conversation opens nothing on a new connection", "[unit]") {
  Ends ends;
  ends.greet();
  auto const recorded = ends.caller.seal("hello");
  SecureChannel fresh = SecureChannel::of_called(key_of(9), nonce_of(3));
  (void)fresh.on_frame(ends.caller.call());
  CHECK(why(fresh.on_frame(recorded)) == "it does not know this job's key");
}

TEST_CASE("guard: who has no key lets nobody in, and clear text is no way in", "[unit]") {
  SecureChannel none = SecureChannel::of_called(std::nullopt, {});
  CHECK(why(none.on_frame(SecureChannel::of_caller(nonce_of(1)).call())) == "this agent has no key yet");
  CHECK(why(Ends().called.on_frame(R"({"hello":"cxxrun"})")) == "it does not speak cxxrun's handshake");
  Ends ends;
  CHECK(why(ends.caller.on_frame(R"({"hello":"cxxrun"})")) == "it does not speak cxxrun's handshake");
}

TEST_CASE("guard: an end that speaks before its turn is refused", "[unit]") {
  Ends ends;
  auto const back = std::get<SendBack>(ends.called.on_frame(ends.caller.call())).frame;
  CHECK(std::holds_alternative<WantsKey>(ends.caller.on_frame(back)));
  CHECK(why(ends.caller.on_frame(back)) == "it sent a frame out of turn");
}

TEST_CASE("guard: a note is taken from who knew the key, in clear and as it was written", "[unit]") {
  auto const note = sign_death_notice(key_of(9), {"hello", "gone"});
  CHECK(std::get<DeathNotice>(Ends().called.on_frame(note)).payloads == std::vector<std::string>{"hello", "gone"});
  CHECK(why(Ends().called.on_frame(sign_death_notice(key_of(8), {"hello", "gone"}))) ==
        "it does not know this job's key");
  for (std::size_t i = 8; i < note.size(); ++i) {
    auto altered = note;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    CHECK_FALSE(why(Ends().called.on_frame(altered)).empty());
  }
  Ends ends;
  ends.greet();
  CHECK_FALSE(why(ends.called.on_frame(note)).empty());  // a death notice is refused once frames are sealed
}

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
  refuses(second);                           // one was left out
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
