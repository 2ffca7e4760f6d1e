#include "rendezvous/trust/guard.hpp"

#include "tests/rendezvous/trust/keys.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::fresh_of;
using cxxrun::test::key_of;

namespace {

struct Ends {
  Guard caller = Guard::of_caller(fresh_of(1), id_of(key_of(9)));
  Guard called = Guard::of_called(key_of(9), fresh_of(2));

  /// Brings both to where frames are sealed.
  void greet(Key const& callers_key = key_of(9)) {
    auto const back = called.hear(caller.call());
    auto const wants = caller.hear(std::get<SendBack>(back).frame);
    CHECK(std::get<WantsKey>(wants).offer.key == id_of(key_of(9)));
    caller.give(callers_key);
  }
};

std::string why(Heard const& heard) {
  auto const* const broken = std::get_if<Broken>(&heard);
  return broken == nullptr ? "" : broken->why;
}

}  // namespace

TEST_CASE("guard: both ends understand each other, and each knows that the other has the key", "[unit]") {
  Ends ends;
  CHECK_FALSE(ends.called.sealed());
  ends.greet();
  CHECK_FALSE(ends.called.proven());
  CHECK(std::get<Unsealed>(ends.called.hear(ends.caller.say("hello"))).payload == "hello");
  CHECK(ends.called.proven());
  CHECK(std::get<Unsealed>(ends.caller.hear(ends.called.say("welcome"))).payload == "welcome");
  CHECK(ends.caller.proven());
}

TEST_CASE("guard: who has another key is refused at its first frame, on both sides", "[unit]") {
  Ends ends;
  ends.greet(key_of(8));
  CHECK(why(ends.called.hear(ends.caller.say("hello"))) == "it does not know this job's key");
  CHECK(why(ends.caller.hear(ends.called.say("welcome"))) == "it does not know this job's key");
}

TEST_CASE("guard: a frame that is replayed, altered or sent back ends the connection", "[unit]") {
  Ends ends;
  ends.greet();
  auto const first = ends.caller.say("hello");
  CHECK(std::holds_alternative<Unsealed>(ends.called.hear(first)));
  SECTION("replayed") {
    CHECK(why(ends.called.hear(first)) == "a frame was altered on its way");
  }
  SECTION("sent back") {
    CHECK(why(ends.caller.hear(first)) == "it does not know this job's key");
  }
  SECTION("in clear") {
    CHECK_FALSE(why(ends.called.hear(R"({"type":"ack"})")).empty());
  }
  SECTION("a handshake again") {
    CHECK_FALSE(why(ends.called.hear(ends.caller.call())).empty());
  }
}

TEST_CASE("guard: frames in another order, cut short or with one bit flipped end the connection", "[unit]") {
  Ends ends;
  ends.greet();
  auto const first = ends.caller.say("first");
  auto const second = ends.caller.say("second");
  CHECK(why(ends.called.hear(second)) == "it does not know this job's key");
  CHECK_FALSE(why(ends.called.hear(first)).empty());  // it is over
  Ends whole;
  whole.greet();
  CHECK(std::holds_alternative<Unsealed>(whole.called.hear(whole.caller.say("first"))));
  auto const next = whole.caller.say("next");
  SECTION("cut short") {
    CHECK(why(whole.called.hear(next.substr(0, next.size() - 1))) == "a frame was altered on its way");
  }
  SECTION("one bit flipped") {
    auto altered = next;
    altered[3] = static_cast<char>(altered[3] ^ 4);
    CHECK(why(whole.called.hear(altered)) == "a frame was altered on its way");
  }
}

TEST_CASE("guard: who stands between and strips a way to the key is left with frames that do not open", "[unit]") {
  Guard caller = Guard::of_caller(fresh_of(1));
  Guard called = Guard::of_called(key_of(9), fresh_of(2));
  CHECK(std::get<WantsWraps>(called.hear(caller.call())).call == id_of_call(caller.call()));
  auto offer = *read_answer(called.answer({{WrapKind::munge, "credential"}, {WrapKind::secret, "wrapped"}}));
  offer.wraps.erase(offer.wraps.begin() + GENERATE(0, 1));
  CHECK(std::get<WantsKey>(caller.hear(write_answer(offer))).offer.wraps.size() == 1);
  caller.give(key_of(9));
  CHECK(why(called.hear(caller.say("hello"))) == "it does not know this job's key");
  CHECK(why(caller.hear(called.say("welcome"))) == "it does not know this job's key");
}

TEST_CASE("guard: who calls with the run's key gets no wrap, and who calls with another one waits for it", "[unit]") {
  Guard knows = Guard::of_caller(fresh_of(1), id_of(key_of(9)));
  auto const back = Guard::of_called(key_of(9), fresh_of(2)).hear(knows.call());
  CHECK(read_answer(std::get<SendBack>(back).frame)->wraps.empty());
  Guard waits = Guard::of_caller(fresh_of(1), id_of(key_of(8)));
  Guard called = Guard::of_called(key_of(9), fresh_of(2));
  CHECK(std::holds_alternative<WantsWraps>(called.hear(waits.call())));
  CHECK(why(called.hear(waits.call())) == "it speaks before its turn");
}

TEST_CASE("guard: a recorded conversation opens nothing on a new connection", "[unit]") {
  Ends ends;
  ends.greet();
  auto const recorded = ends.caller.say("hello");
  Guard fresh = Guard::of_called(key_of(9), fresh_of(3));
  (void)fresh.hear(ends.caller.call());
  CHECK(why(fresh.hear(recorded)) == "it does not know this job's key");
}

TEST_CASE("guard: who has no key lets nobody in, and clear text is no way in", "[unit]") {
  Guard none = Guard::of_called(std::nullopt, {});
  CHECK(why(none.hear(Guard::of_caller(fresh_of(1)).call())) == "this agent has no key yet");
  CHECK(why(Ends().called.hear(R"({"hello":"cxxrun"})")) == "it does not prove itself as cxxrun does");
  Ends ends;
  CHECK(why(ends.caller.hear(R"({"hello":"cxxrun"})")) == "it does not prove itself as cxxrun does");
}

TEST_CASE("guard: an end that speaks before its turn is refused", "[unit]") {
  Ends ends;
  auto const back = std::get<SendBack>(ends.called.hear(ends.caller.call())).frame;
  CHECK(std::holds_alternative<WantsKey>(ends.caller.hear(back)));
  CHECK(why(ends.caller.hear(back)) == "it speaks before its turn");
}

TEST_CASE("guard: a note is taken from who knew the key, in clear and as it was written", "[unit]") {
  auto const note = write_note(key_of(9), {"hello", "gone"});
  CHECK(std::get<Note>(Ends().called.hear(note)).payloads == std::vector<std::string>{"hello", "gone"});
  CHECK(why(Ends().called.hear(write_note(key_of(8), {"hello", "gone"}))) == "it does not know this job's key");
  for (std::size_t i = 8; i < note.size(); ++i) {
    auto altered = note;
    altered[i] = static_cast<char>(altered[i] ^ 1);
    CHECK_FALSE(why(Ends().called.hear(altered)).empty());
  }
  Ends ends;
  ends.greet();
  CHECK_FALSE(why(ends.called.hear(note)).empty());  // not in the middle of a conversation
}
