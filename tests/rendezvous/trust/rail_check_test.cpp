#include "rendezvous/trust/rail_check.hpp"

#include "tests/rendezvous/trust/keys.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::key_of;
using wire::RailClaim;
using wire::RailGreeting;
using wire::RailSide;
using What = wire::RailVerdict::What;

namespace {

cxxrun::TcpEnd point(unsigned char last, std::uint16_t port) {
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last}, port};
}

/// Rank 3 at 10.0.0.1 has connected to rank 7 at 10.0.0.2.
struct Link {
  RailGreeting call = {.channel = wire::RailChannel::control,
                       .from = 3,
                       .to = 7,
                       .generation = 5,
                       .nonce = 99,
                       .proves = 1,
                       .caller = point(1, 40001),
                       .called = point(2, 40002)};
  RailGreeting answer = call;
  RailClaimant caller{3, 5, "run", ""};
  RailClaimant called{7, 5, "run", ""};

  Link() {
    std::swap(answer.from, answer.to);
    call.fresh.fill(1);
    answer.fresh.fill(2);
  }
  [[nodiscard]] RailClaim claim(RailSide side, std::string theirs = "") const {
    return {side, call, answer, std::move(theirs)};
  }
  [[nodiscard]] std::string callers_proof(Key const& key = key_of(1)) const {
    return check_rail_claim(key, caller, claim(RailSide::caller)).value().own;
  }
  /// The verdict of the called side's agent on this proof.
  [[nodiscard]] What verdict(std::string const& theirs) const {
    return check_rail_claim(key_of(1), called, claim(RailSide::called, theirs)).value().what;
  }
};

}  // namespace

TEST_CASE("rail witness: each end's proof convinces the agent of the other", "[unit]") {
  Link const link;
  auto const first = link.callers_proof();
  CHECK(first.size() == wire::kRailProof);
  auto const second = check_rail_claim(key_of(1), link.called, link.claim(RailSide::called, first)).value();
  CHECK(second.what == What::right);
  auto const last = check_rail_claim(key_of(1), link.caller, link.claim(RailSide::caller, second.own)).value();
  CHECK(last.what == What::right);
}

TEST_CASE("rail witness: nobody is convinced by its own proof", "[unit]") {
  Link const link;
  auto const own = link.callers_proof();
  auto const reflected = check_rail_claim(key_of(1), link.caller, link.claim(RailSide::caller, own)).value();
  CHECK(reflected == wire::RailVerdict{What::wrong, ""});
  auto const second = check_rail_claim(key_of(1), link.called, link.claim(RailSide::called, own)).value().own;
  CHECK(link.verdict(second) == What::wrong);
}

TEST_CASE("rail witness: a proof is of one key, one run and every byte of both greetings", "[unit]") {
  Link const link;
  auto const proof = link.callers_proof();
  CHECK(link.verdict(proof) == What::right);
  CHECK(link.verdict(link.callers_proof(key_of(2))) == What::wrong);
  CHECK(link.verdict(std::string(wire::kRailProof, '\0')) == What::wrong);
  Link other_run;
  other_run.caller.run_id = "other";
  CHECK(link.verdict(other_run.callers_proof()) == What::wrong);
  for (std::size_t at = 0; at < sizeof(RailGreeting); ++at) {
    for (RailGreeting Link::*const greeting : {&Link::call, &Link::answer}) {
      Link altered;
      reinterpret_cast<char*>(&(altered.*greeting))[at] ^= 1;
      auto const claim = altered.claim(RailSide::called, proof);
      auto const verdict = check_rail_claim(key_of(1), link.called, claim);
      CAPTURE(at);
      CHECK_FALSE((verdict && verdict.value().what == What::right));
    }
  }
}

TEST_CASE("rail witness: whom the other end sees elsewhere is relayed, on either side", "[unit]") {
  Link link;
  auto const proof = link.callers_proof();
  link.answer.caller = point(9, 40001);
  CHECK(check_rail_claim(key_of(1), link.caller, link.claim(RailSide::caller)).value() ==
        wire::RailVerdict{What::relayed, ""});
  CHECK(wire::relay_text(link.call, link.answer) ==
        "the connection is relayed: begun at 10.0.0.1:40001, seen to come from 10.0.0.9:40001; where addresses are "
        "translated give that node its outer one with --local-addr");
  link.answer.caller = point(1, 40003);  // another port, hence another connection
  CHECK(check_rail_claim(key_of(1), link.caller, link.claim(RailSide::caller)).value().what == What::relayed);
  link = Link();
  link.call.called = point(9, 40002);
  CHECK(link.verdict(proof) == What::relayed);
  CHECK(wire::relay_text(link.call, link.answer).find("made to 10.0.0.9:40002, seen to arrive at 10.0.0.2:40002") !=
        std::string::npos);
}

TEST_CASE("rail witness: --local-addr stands for the own end, at any port, and for no other", "[unit]") {
  Link link;
  link.answer.caller = point(9, 50000);
  link.caller.local_addr = "10.0.0.9";
  auto const proof = link.callers_proof();
  CHECK(link.verdict(proof) == What::right);  // the caller's own agent has checked the caller's end
  link.caller.local_addr = "10.0.0.8";
  CHECK(check_rail_claim(key_of(1), link.caller, link.claim(RailSide::caller)).value().what == What::relayed);
  link.call.called = point(8, 1);
  link.caller.local_addr = "10.0.0.9";
  link.called.local_addr = "10.0.0.8";
  CHECK(link.verdict(link.callers_proof()) == What::right);
}

TEST_CASE("rail witness: a worker gets proofs for its own rank, generation and turn alone", "[unit]") {
  Link const link;
  auto const proof = link.callers_proof();
  auto const refusal = [&](RailClaimant const& witness, RailClaim const& claim) {
    auto const verdict = check_rail_claim(key_of(1), witness, claim);
    return verdict ? std::string("none") : verdict.error().context;
  };
  std::string const other_rank = "this is rank 4 of generation 5, not rank 3 of generation 5";
  CHECK(refusal({4, 5, "run", ""}, link.claim(RailSide::caller)) == other_rank);
  CHECK(refusal({3, 6, "run", ""}, link.claim(RailSide::caller)) != "none");
  CHECK(refusal(link.called, link.claim(RailSide::caller)) != "none");  // a worker gets no proof of the other side
  CHECK(refusal(link.caller, link.claim(RailSide::called, proof)) != "none");
  std::string const unsaid = "it asks for a proof of greetings that were not exchanged";
  CHECK(refusal(link.called, link.claim(RailSide::called)) == unsaid);  // the called side proves itself second
  for (auto const alter : {+[](Link& l) { l.answer.nonce ^= 1; }, +[](Link& l) { l.answer.generation ^= 1; },
                           +[](Link& l) { l.answer.to = 4; }, +[](Link& l) { l.answer.from = 4; },
                           +[](Link& l) { l.answer.channel = wire::RailChannel::data; },
                           +[](Link& l) { l.call.proves = l.answer.proves = 0; },
                           +[](Link& l) { l.call.version = l.answer.version = 9; }}) {
    Link altered;
    alter(altered);
    CHECK(refusal(altered.caller, altered.claim(RailSide::caller)) == unsaid);
  }
}
