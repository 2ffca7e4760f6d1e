// Rows of the table for elections: campaigns and calls.
#include "tests/support/election_race.hpp"

namespace cxxrun::test::election {

Cells campaigns() {
  return {{"electing", leads_to(standby, {campaign()}, Phase::electing)},
          {"a higher ballot: asks again",
           [] {
             Race race = electing();
             CHECK(race.feed(campaign()).told<VoteRequest>() == 0);
             CHECK(race.feed(campaign(3, {3, 0})).told<VoteRequest>() == 2);
             CHECK(race.phase() == Phase::electing);
           }},
          {"ignored", ignored(opening, campaign(3, {5, 0}))},
          {"ignored", ignored(running, campaign(3, {5, 0}))}};
}

Cells withdraws() {
  Withdraw const event{"why"};
  return {{"–", ignored(standby, event)},
          {"standby; who has promised us, or has joined meanwhile, is hung up on, and looks further",
           [event] {
             Race race = electing();
             CHECK(race.feed(event).did<HangUp>() == 2);
             CHECK(race.phase() == Phase::standby);
           }},
          {"elected and not yet decided: deposed; else –",
           [event] {
             CHECK(elected(false).feed(event).phase() == Phase::deposed);
             ignored(opening, event)();
           }},
          {"as before", [event] {
             CHECK(elected(true).feed(event).phase() == Phase::deposed);
             ignored(running, event)();
           }}};
}

Cells learns() {
  Learned const event{decree(9, 3), {}};
  return {{"kept; callers that know of an older generation hear of it, now and later",
           [event] {
             Race race = standby();
             CHECK(race.feed(calls(2)).feed(event).told<Decided>() == 1);
             CHECK(race.feed(calls(3)).told<Decided>() == 1);
             CHECK(race.feed(FollowerCalled{4, {}}).phase() == Phase::standby);
           }},
          {"–", ignored([] { return electing(); }, event)},
          {"–", ignored(opening, event)},
          {"–", ignored(running, event)}};
}

Cells member_calls() {
  return {{"noted", ignored(standby, calls(2))},
          {"asked for its promise",
           [] {
             Race race = electing();
             CHECK(race.feed(calls(3)).told<VoteRequest>() == 1);
             CHECK(race.phase() == Phase::electing);
           }},
          {"elected, and the next generation not formed: asked, each time that it calls, keeps its seat; asked before: "
           "noted, its vote counts; else dropped, or deposed if the others could not decide or would be fewer than MIN",
           [] {
             Race race = elected(false);
             CHECK(race.feed(calls(3, false)).told<VoteRequest>() == 1);
             CHECK(race.feed(calls(3, false)).told<VoteRequest>() == 1);
             race.pass(race.policy.rejoin_window);
             REQUIRE(race.phase() == Phase::opening);
             CHECK(race.feed(calls(3, false)).last.actions.empty());
             CHECK(opening().feed(calls(2, false, 9)).told<Dropped>() == 1);
             Race few = opening();
             few.policy.min_nodes = 3;
             CHECK(few.feed(calls(2, false, 9)).phase() == Phase::deposed);
           }},
          {"elected and stopping: asked; else its old connection counts as lost, dropped; deposed if the others could "
           "not decide or would be fewer than MIN (but for a stop (user)), or running without authority",
           [] {
             CHECK(elected(true).feed(calls(3)).told<VoteRequest>() == 1);
             Race race = running();
             CHECK(race.feed(calls(2, true, 9)).told<Dropped>() == 1);
             CHECK(race.phase() == Phase::stopping);
             Race few = running();
             few.policy.min_nodes = 3;
             CHECK(few.feed(calls(2, true, 9)).phase() == Phase::deposed);
             Race user = running();
             user.policy.min_nodes = 3;
             CHECK(user.feed(Quit{15}).feed(calls(2, true, 9)).phase() == Phase::stopping);
             Race late = running();
             late.now += 4500ms;
             CHECK(late.feed(calls(2, true, 9)).phase() == Phase::deposed);
           }}};
}

Cells later_decision() {
  return {{"noted", ignored(standby, later_calls())},
          {"all hear of it, deposed",
           [] {
             Race race = electing();
             CHECK(race.feed(later_calls()).told<Decided>() == 2);
             CHECK(race.phase() == Phase::deposed);
           }},
          {"the same", leads_to(opening, {later_calls()}, Phase::deposed)},
          {"the same", leads_to(running, {later_calls()}, Phase::deposed)}};
}

Cells spare() {
  return {{"noted", ignored(standby, spare_calls())},
          {"noted", ignored([] { return electing(); }, spare_calls())},
          {"present",
           [] {
             Race race = opening();
             CHECK(race.feed(spare_calls()).state.roster.present.contains(9));
             CHECK(race.phase() == Phase::opening);
           }},
          {"as one who joins: a free seat, or waits as a spare; dropped where a newcomer is refused", [] {
             Race race = running();
             CHECK(race.feed(spare_calls()).state.roster.present.contains(9));
             CHECK(race.phase() == Phase::running);
             Race wider = running();
             wider.policy.max_nodes = 4;
             CHECK(wider.feed(spare_calls()).phase() == Phase::stopping);
             Race refused = running();
             refused.state.roster.unfit["#8"] = "why";
             CHECK(refused.feed(spare_calls()).told<Dropped>() == 1);
           }}};
}

}  // namespace cxxrun::test::election
