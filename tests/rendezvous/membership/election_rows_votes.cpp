// Rows of the table for elections: votes, beats and authority.
#include "tests/support/election_race.hpp"

namespace cxxrun::test::election {

Cells promised() {
  return {{"–", ignored(standby, promises(2))},
          {"a quorum: adopt, or take over; exactly half and a fence: the same when no other has come for 2 d + h",
           [] {
             Race race = electing();
             CHECK(race.feed(promises(1)).phase() == Phase::electing);
             CHECK(Race(race).feed(promises(2)).phase() == Phase::stopping);
             CHECK(race.feed(promises(2, kOurs, AcceptedDecree{{1, 2}, decree(2, 2)})).phase() == Phase::proposing);
             Race half = standby();
             half.feed(calls(1)).feed(calls(2));
             Campaign with_fence = campaign(4, kOurs, Tie::fence);
             with_fence.half_after = 900ms;
             half.feed(with_fence).feed(promises(1)).feed(promises(2));
             CHECK(half.phase() == Phase::electing);
             Race again = half;
             CHECK(half.pass(1s).phase() == Phase::stopping);
             again.feed(promises(2, {3, 2})).pass(1s).feed(calls(3)).feed(promises(3));
             CHECK(again.phase() == Phase::electing);  // half anew: it waits anew
             CHECK(again.pass(1s).phase() == Phase::stopping);
           }},
          {"elected and forming: keeps its seat",
           [] {
             Race race = elected(false);
             race.feed(calls(3, false)).feed(promises(3));
             CHECK(race.state.group.seat_of.at(3) == 2);
             CHECK(race.phase() == Phase::opening);
           }},
          {"elected and stopping: the same", [] {
             Race race = elected(true);
             race.feed(calls(3)).feed(promises(3));
             CHECK(race.state.group.seat_of.at(3) == 2);
             CHECK(race.phase() == Phase::stopping);
           }}};
}

Cells higher_promise() {
  Said const refused{2, Accepted{1, {1, 0}, {2, 1}}};
  return {{"–", ignored(standby, promises(2, {3, 2}))},
          {"that member does not count",
           [] {
             Race race = electing();
             race.feed(promises(2)).feed(promises(2, {3, 2})).feed(promises(1));
             CHECK(race.phase() == Phase::electing);
           }},
          {"deposed",
           [refused] {
             CHECK(elected(false).feed(promises(2, {3, 2})).phase() == Phase::deposed);
             CHECK(opening().feed(refused).phase() == Phase::deposed);
           }},
          {"deposed", [refused] {
             CHECK(elected(true).feed(promises(2, {3, 2})).phase() == Phase::deposed);
             CHECK(running().feed(refused).phase() == Phase::deposed);
           }}};
}

Cells accepted() {
  Said const one{1, Accepted{1, {1, 0}, {1, 0}}};
  Said const two{2, Accepted{1, {1, 0}, {1, 0}}};
  return {{"–", ignored(standby, one)},
          {"–", ignored([] { return electing(); }, one)},
          {"proposing: a quorum decides; exactly half claims the fence",
           [one, two] {
             Race race = proposing();
             CHECK(race.feed(one).phase() == Phase::proposing);
             CHECK(race.feed(two).state.proposer.decided.number == 2);
             CHECK(race.phase() == Phase::running);
             Race half = claiming();
             half.feed(Fenced{1, AcceptedDecree{kOurs, *half.state.proposer.proposal}, ""});
             half.feed(Said{1, Accepted{1, kOurs, kOurs}}).feed(Said{2, Accepted{1, kOurs, kOurs}});
             CHECK(half.state.proposer.decided.number == 2);
           }},
          {"–", ignored(running, one)}};
}

Cells fence() {
  Fenced const other{1, AcceptedDecree{{2, 3}, decree(2, 3)}, ""};
  return {{"–", ignored(standby, other)},
          {"–", ignored([] { return electing(); }, other)},
          {"proposing: go on / verdict `partitioned`",
           [other] {
             Race race = claiming();
             Fenced const ours{1, AcceptedDecree{kOurs, *race.state.proposer.proposal}, ""};
             CHECK(Race(race).feed(ours).told<Propose>() == 2);
             CHECK(race.feed(other).phase() == Phase::finished);
             CHECK(race.state.verdict->end == End::partitioned);
           }},
          {"–", ignored(running, other)}};
}

Cells death_notice() {
  return {{"noted",
           [] {
             CHECK(standby().feed(ConfirmedDead{{1, 1}}).state.election.dead.contains(Held{1, 1}));
           }},
          {"may prove a pair's other half dead",
           [] {
             Race race = standby();
             Campaign pair = campaign(2, {2, 1});
             pair.pair = true;
             race.policy.min_nodes = 1;
             FollowerCalled own{2, member(2, false, 2)};
             race.feed(own).feed(pair).feed(Said{2, Vote{1, {2, 1}, {2, 1}, {}, 1s}});
             CHECK(race.phase() == Phase::electing);
             CHECK(race.feed(ConfirmedDead{{1, 0}}).phase() == Phase::opening);
           }},
          {"nobody waits for that seat's workers",
           leads_to([] { return elected(false); }, {ConfirmedDead{{1, 2}}}, Phase::opening)},
          {"the same, and the member is lost", leads_to(running, {ConfirmedDead{{1, 1}}}, Phase::stopping)}};
}

Cells beat() {
  auto const lease_of = [](Race race) {
    race.now += 100ms;
    return race.feed(Beaten{2, {race.time(), race.time(), 1}}).lease();
  };
  return {{"answered, no lease", [=] { CHECK(lease_of(standby()) == 0ms); }},
          {"no lease", [=] { CHECK(lease_of(electing()) == 0ms); }},
          {"no lease; lease_wait: may bring the authority to start", [=] { CHECK(lease_of(opening()) == 0ms); }},
          {"lease for members", [=] { CHECK(lease_of(running()) > 0ms); }}};
}

/// Agent 2 has sent a beat, and `then` happens a second later.
Race after_beat(Race race, std::function<void(Race&)> const& then) {
  race.feed(calls(2)).feed(Beaten{2, {1, 1, 1}});
  race.now += 1s;
  then(race);
  return race;
}

Cells beats_ended() {
  auto const anew = [](std::function<Race()> const& from) {
    return [from] {
      Race const race = after_beat(from(), [](Race& each) { each.feed(BeatsEnded{2}); });
      CHECK(race.state.silence.heard.at(2) == race.now);
      CHECK_FALSE(Race(race).feed(BeatsEnded{7}).state.silence.heard.contains(7));
    };
  };
  return {{"the timeout anew, if it has ever sent one", anew(standby)},
          {"the same", anew([] { return electing(); })},
          {"the same", anew(opening)},
          {"the same", anew(running)}};
}

Cells silent() {
  auto const hung_up = [](std::function<Race()> const& from) {
    return [from] {
      Race race = after_beat(from(), [](Race&) {});
      std::size_t closed = 0;
      for (int i = 0; i < 30 && race.phase() != Phase::deposed; ++i) {
        race.feed(Beaten{1, {race.time(), race.time(), 1}}).feed(Beaten{3, {race.time(), race.time(), 1}}).pass(250ms);
        closed +=
            static_cast<std::size_t>(std::count(race.last.actions.begin(), race.last.actions.end(), Action{HangUp{2}}));
      }
      CHECK(closed == 1);
    };
  };
  return {{"connection closed, as if it had ended", hung_up(standby)},
          {"the same", hung_up([] { return electing(); })},
          {"the same", hung_up(opening)},
          {"the same", hung_up(running)}};
}

Cells too_few_votes() {
  return {{"–"},
          {"–"},
          {"elected, and about to form: deposed",
           leads_to([] { return elected(false); }, {Lost{2, "reset"}}, Phase::deposed)},
          {"–"}};
}

Cells no_authority() {
  return {{"–"},
          {"–"},
          {"deposed when members enough to decide are not connected any more"},
          {"running: deposed; after a suspension of its own only when nobody has echoed for the timeout", [] {
             CHECK(running().pass(3500ms).phase() == Phase::running);
             CHECK(running().pass(7s).phase() == Phase::deposed);
             Race suspended = running();
             suspended.now += 20s;
             CHECK(suspended.feed(Tick{}).phase() == Phase::running);
             CHECK(suspended.pass(6s).phase() == Phase::deposed);
           }}};
}

}  // namespace cxxrun::test::election
