#include "rendezvous/trust/rail_check.hpp"

namespace cxxrun::rendezvous {
namespace {

using wire::RailGreeting;
using wire::RailSide;
using What = wire::RailVerdict::What;

static_assert(wire::kRailProof == kProofBytes);

constexpr std::string_view kPurpose = "cxxrun rails";

/// The side goes first, so that a side's own proof cannot be reflected to it.
std::string words_of(RailSide side, RailGreeting const& call, RailGreeting const& answer) {
  std::string words(1, static_cast<char>(side));
  words.append(reinterpret_cast<char const*>(&call), sizeof call);
  words.append(reinterpret_cast<char const*>(&answer), sizeof answer);
  return words;
}

bool are_of_one_connection(RailGreeting const& call, RailGreeting const& answer) {
  RailGreeting turned = answer;
  std::swap(turned.from, turned.to);
  turned.caller = call.caller;
  turned.called = call.called;
  turned.fresh = call.fresh;
  return turned == call && call.magic == wire::kRailMagic && call.version == wire::kRailVersion && call.proves == 1;
}

/// Each agent checks the end of its own worker only. The other agent checks the other end, since it alone knows the
/// --local-addr of its node; its proof vouches for that.
bool is_seen_where_it_is(RailSide side, RailGreeting const& call, RailGreeting const& answer,
                         std::string const& local_addr) {
  auto const& own = side == RailSide::caller ? call.caller : answer.called;
  auto const& seen = side == RailSide::caller ? answer.caller : call.called;
  return own == seen || (!local_addr.empty() && address_text(seen) == local_addr);
}

}  // namespace

Result<wire::RailVerdict> check_rail_claim(Key const& key, RailClaimant const& claimant, wire::RailClaim const& claim) {
  bool const calls = claim.side == RailSide::caller;
  RailGreeting const& mine = calls ? claim.call : claim.answer;
  if (mine.from != static_cast<std::int64_t>(claimant.rank) || mine.generation != claimant.generation) {
    return fail(Errc::refused, "this is rank " + std::to_string(claimant.rank) + " of generation " +
                                   std::to_string(claimant.generation) + ", not rank " + std::to_string(mine.from) +
                                   " of generation " + std::to_string(mine.generation));
  }
  if (!are_of_one_connection(claim.call, claim.answer) || (!calls && claim.theirs.empty())) {
    return fail(Errc::refused, "it asks for a proof of greetings that were not exchanged");
  }
  if (!is_seen_where_it_is(claim.side, claim.call, claim.answer, claimant.local_addr)) {
    return wire::RailVerdict{What::relayed, ""};
  }
  Key const derived = derive(key, kPurpose, claimant.run_id);
  RailSide const other = calls ? RailSide::called : RailSide::caller;
  if (!claim.theirs.empty() && !proves(derived, words_of(other, claim.call, claim.answer), claim.theirs)) {
    return wire::RailVerdict{What::wrong, ""};
  }
  return wire::RailVerdict{What::right, proof_of(derived, words_of(claim.side, claim.call, claim.answer))};
}

}  // namespace cxxrun::rendezvous
