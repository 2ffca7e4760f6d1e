// The rows of the table in docs/design/membership.md about workers, signals and time.
#include <array>

#include "tests/support/membership_job.hpp"
#include "tests/support/said.hpp"

using namespace std::chrono_literals;

namespace cxxrun::test {

Row unfit() {
  auto const ignored_or_excluded = [](Phase phase) {
    Job member(phase, true);
    member.feed(Said{2, Unfit{1, "no GPU"}});
    CHECK(member.in(phase, 1));
    CHECK(member.state.roster.unfit.empty());
    member.feed(Said{3, Unfit{1, "no GPU"}});
    CHECK(member.state.roster.excluded.contains(3));
  };
  return {{"forming",
           {"excluded",
            [](Phase phase) {
              Job job(phase);
              job.feed(Said{1, Unfit{0, "no GPU"}});
              CHECK(job.state.roster.excluded.contains(1));
              CHECK(job.state.roster.present.empty());
            }}},
          {"opening, preparing",
           {"excluded, back to forming, number used up",
            [](Phase phase) {
              Job job(phase);
              job.feed(Said{2, Unfit{1, "no GPU"}});
              CHECK(job.in(Phase::forming, 1));
              CHECK(job.state.roster.excluded.contains(2));
              CHECK(job.state.restarts.consumed == 0);
            }}},
          {"running", {"a spare: excluded; a member: ignored", ignored_or_excluded}},
          {"stopping", {"as running", ignored_or_excluded}},
          {"finished", nothing([](Job const&) {
             return Event{Said{2, Unfit{1, "no GPU"}}};
           })}};
}

Row failed() {
  auto const ignored = nothing([](Job const& job) {
    return Event{Said{2, WorkerFailed{job.state.number, Job::failure()}}};
  });
  return {{"forming",
           {"–",
            [](Phase phase) {
              Job job(phase);
              job.feed(Said{1, WorkerFailed{0, Job::failure()}});
              CHECK(job.in(Phase::forming, 0));
            }}},
          {"opening, preparing", ignored},
          {"running",
           {"stop (failure); it names a peer: within 200 ms",
            [](Phase phase) {
              Job waits(phase);
              auto victim = Job::failure();
              victim.lost = worker::Loss{victim.rank == 0 ? 1U : 0U, PeerFailure::Why::left};
              waits.feed(Said{2, WorkerFailed{1, victim}});
              CHECK(waits.in(Phase::running, 1));
              waits.now += 200ms;
              waits.feed(Tick{});
              CHECK(waits.stops(StopKind::failure));
              Job job(phase);
              job.feed(Said{2, WorkerFailed{1, Job::failure()}});
              CHECK(job.stops(StopKind::failure));
              CHECK(job.told<Stop>(1) != nullptr);
              CHECK(job.told<Stop>(2) != nullptr);
            }}},
          {"stopping",
           {"noted for the cause",
            [](Phase phase) {
              Job job(phase);
              job.feed(Said{1, WorkerFailed{1, Job::failure()}});
              CHECK(job.in(Phase::stopping, 1));
              CHECK(job.state.group.reports.size() == 2);
            }}},
          {"finished", ignored}};
}

Row progress() {
  auto const still = [](std::uint64_t number, std::uint32_t rank, std::uint64_t done) {
    return Progress{number, {{rank, 1, done, 0, 25, 60s, false}}};
  };
  auto const ignored = nothing([=](Job const& job) { return Event{Said{2, still(job.state.number, 1, 0)}}; });
  return {
      {"forming",
       {"–",
        [=](Phase phase) {
          Job job(phase);
          job.feed(Said{1, still(0, 0, 0)});
          CHECK(job.in(Phase::forming, 0));
          CHECK(job.state.hangs.ranks.empty());
        }}},
      {"opening, preparing", ignored},
      {"running",
       {"noted; whoever keeps the others waiting is named, then told to be killed; whom the others have given up is "
        "told to be killed; where all those wait, too: stop (failure)",
        [=](Phase phase) {
          Job job(phase);
          job.policy.hang_timeout = 70s;
          job.feed(Said{1, still(1, 0, 0)});
          job.feed(Said{2, Progress{1, {{1, 0, 0, 0, 25, 60s, false}, {0, 9, 9, 0, 25, 60s, false}}}});
          CHECK(job.state.hangs.ranks.size() == 2);  // reports about another node's rank are ignored
          CHECK(job.state.hangs.ranks.at(0).last.entered == 1);
          job.now += 2s;
          job.feed(Tick{});
          CHECK(text_of(job.last.said).starts_with("rank 1 on n1 has not entered all_reduce #1 (25 f32) for 62 s"));
          REQUIRE_FALSE(job.last.story.empty());
          auto const* const hang = std::get_if<story::Hang>(&job.last.story.back().what);
          REQUIRE(hang != nullptr);
          CHECK(hang->generation == 1);
          CHECK(hang->how.starts_with("rank 1 on n1 has not entered all_reduce #1 (25 f32) for 62 s"));
          CHECK(job.told<Kill>(2) == nullptr);
          job.now += 10s;
          job.feed(Tick{});
          REQUIRE(job.told<Kill>(2) != nullptr);
          CHECK(job.told<Kill>(2)->rank == 1);
          CHECK(job.told<Kill>(2)->number == 1);
          CHECK(job.told<Kill>(1) == nullptr);
          CHECK(job.in(Phase::running, 1));
          Job named(phase);
          named.feed(Said{2, Progress{1, {}, {{0, {1, PeerFailure::Why::timeout}}}}});  // another node's rank
          CHECK(named.told<Kill>(2) == nullptr);
          named.feed(Said{1, Progress{1, {}, {{0, {1, PeerFailure::Why::timeout}}}}});
          REQUIRE(named.told<Kill>(2) != nullptr);
          CHECK(named.told<Kill>(2)->named == PeerFailure::Why::timeout);
          CHECK(named.in(Phase::running, 1));
          named.feed(Said{2, Progress{1, {}, {{1, worker::kNamesNobody}}}});
          CHECK(named.in(Phase::stopping, 1));
          CHECK(named.state.group.stop.kind == StopKind::failure);
          CHECK(named.state.group.stop.why == "rank 1 on n1 did not arrive in time for 1 other");
          for (AgentId const agent : {1U, 2U}) {
            named.feed(Said{agent, Stopped{1, {}, {}}});
          }
          CHECK(named.state.restarts.consumed == 1);  // although no worker has ended
        }}},
      {"stopping", ignored},
      {"finished", ignored}};
}

Row succeeded() {
  auto const ignored = nothing([](Job const& job) { return Event{Said{2, Succeeded{job.state.number}}}; });
  return {
      {"forming",
       {"–",
        [](Phase phase) {
          Job job(phase);
          job.feed(Said{1, Succeeded{0}});
          CHECK(job.in(Phase::forming, 0));
        }}},
      {"opening, preparing", ignored},
      {"running",
       {"the last one: verdict `success`; with a worker whom the others have given up, before or later: stop (failure)",
        [](Phase phase) {
          Event const given_up = Said{1, Progress{1, {}, {{0, {1, PeerFailure::Why::left}}}}};
          Event const success = Said{2, Succeeded{1}};
          for (auto const& events : {std::array{given_up, success}, std::array{success, given_up}}) {
            Job missed(phase);
            missed.feed(events[0]);
            CHECK(missed.in(Phase::running, 1));
            missed.feed(events[1]);
            CHECK(missed.stops(StopKind::failure));
            REQUIRE(missed.state.group.reports.size() == 1);
            auto const& exit = missed.state.group.reports.front().exit;
            CHECK(exit.rank == 1);
            CHECK(exit.status.ok());
            CHECK(exit.hung == "left while 1 other still called");
          }
          Job job(phase);
          job.feed(Said{2, Succeeded{1}});
          CHECK(job.in(Phase::running, 1));
          job.feed(Said{1, Succeeded{1}});
          CHECK(job.ended(End::success));
        }}},
      {"stopping", ignored},
      {"finished", ignored}};
}

Row stopped() {
  auto const ignored = nothing([](Job const& job) { return Event{Said{2, Stopped{job.state.number, {}, {}}}}; });
  return {{"forming",
           {"–",
            [](Phase phase) {
              Job job(phase);
              job.feed(Said{1, Stopped{0, {}, {}}});
              CHECK(job.in(Phase::forming, 0));
            }}},
          {"opening, preparing", ignored},
          {"running", ignored},
          {"stopping",
           {"the last one: fix the cause",
            [](Phase phase) {
              Job job(phase);
              job.feed(Said{1, Stopped{1, {}, {}}});
              CHECK(job.in(Phase::stopping, 1));
              job.feed(Said{2, Stopped{1, {Job::failure()}, {}}});
              CHECK(job.in(Phase::opening, 2));
              CHECK(job.state.restarts.consumed == 1);
            }}},
          {"finished", ignored}};
}

Row told_to_end() {
  return {
      {"forming",
       {"job ends if it is the coordinator's or too few remain, else one fewer",
        [](Phase phase) {
          Job host(phase);
          host.feed(Said{1, Leaving{15}});
          CHECK(host.ended(End::stopped));
          Job other(phase);
          other.policy.max_nodes = 3;
          other.join(2);
          other.feed(Said{2, Leaving{15}});
          CHECK(other.in(Phase::forming, 0));
          CHECK(other.told<Finished>(2)->exit_code == 143);
          CHECK(other.state.roster.present.size() == 1);
        }}},
      {"opening, preparing",
       {"same, back to forming",
        [](Phase phase) {
          Job host(phase);
          host.feed(Said{1, Leaving{15}});
          CHECK(host.ended(End::stopped));
          Job other(phase);
          other.feed(Said{2, Leaving{15}});
          CHECK(other.in(Phase::forming, 1));
        }}},
      {"running",
       {"stop (user), or (resize) if the others can go on",
        [](Phase phase) {
          Job host(phase);
          host.feed(Said{1, Leaving{15}});
          CHECK(host.stops(StopKind::user));
          Job other(phase);
          other.feed(Said{2, Leaving{15}});
          CHECK(other.stops(StopKind::resize));
          Job fixed(phase);
          fixed.policy.min_nodes = 2;
          fixed.feed(Said{2, Leaving{15}});
          CHECK(fixed.stops(StopKind::user));
        }}},
      {"stopping",
       {"may turn the stop into (user)",
        [](Phase phase) {
          Job host(phase);
          host.feed(Said{1, Leaving{15}});
          CHECK(host.stops(StopKind::user));
          Job other(phase);
          other.feed(Said{2, Leaving{15}});
          CHECK(other.stops(StopKind::failure));
        }}},
      {"finished", nothing([](Job const&) {
         return Event{Said{2, Leaving{15}}};
       })},
  };
}

Row coordinator_told_to_end() {
  Cell const verdict{"verdict `stopped`", [](Phase phase) {
                       Job job(phase);
                       job.feed(Quit{15});
                       CHECK(job.ended(End::stopped));
                     }};
  auto const stops = [](Phase phase) {
    Job job(phase);
    job.feed(Quit{15});
    CHECK(job.stops(StopKind::user));
    job.stop_all();
    CHECK(job.ended(End::stopped));
  };
  return {{"forming", verdict},
          {"opening, preparing", verdict},
          {"running", {"stop (user)", stops}},
          {"stopping", {"may turn the stop into (user)", stops}},
          {"finished", nothing([](Job const&) { return Event{Quit{15}}; })}};
}

Row wanted() {
  using What = Wanted::What;
  Cell const ignored{
      "–", [](Phase phase) {
        for (auto const what : {What::checkpoint, What::restart, What::drain, What::stop}) {
          nothing([what](Job const& job) { return Event{Wanted{what, job.state.number, "uid 0", "n1"}}; }).check(phase);
        }
      }};
  return {{"forming", ignored},
          {"opening, preparing", ignored},
          {"running",
           {"checkpoint: noted; restart: stop (resize); drain: stop (resize), then that node is excluded; stop: stop "
            "(user)",
            [](Phase phase) {
              Job asked(phase);
              asked.feed(Wanted{What::checkpoint, 1, "uid 0 on n1"});
              CHECK(asked.in(phase, 1));
              REQUIRE(asked.last.story.size() == 1);
              auto const& told = std::get<story::Wanted>(asked.last.story.front().what);
              CHECK(told.verb == "checkpoint");
              CHECK(told.by == "uid 0 on n1");
              Job restarted(phase);
              restarted.feed(Wanted{What::restart, 1, "uid 0 on n1"});
              CHECK(restarted.stops(StopKind::resize));
              CHECK(restarted.state.group.stop.why == "restarted by uid 0 on n1");
              restarted.stop_all();
              CHECK(restarted.in(Phase::opening, 2));
              CHECK(restarted.state.restarts.consumed == 0);
              Job drained(phase);
              drained.feed(Wanted{What::drain, 1, "uid 0 on n0", "n1"});
              CHECK(drained.stops(StopKind::resize));
              CHECK(drained.told<Stop>(1)->kind == StopKind::resize);
              CHECK(*drained.told<Stop>(2) == Stop{1, StopKind::drain, "drained by uid 0 on n0"});
              drained.stop_all();
              CHECK(drained.in(Phase::opening, 2));
              CHECK(drained.state.group.seats.size() == 1);
              CHECK(drained.state.restarts.consumed == 0);
              Job stopped(phase);
              stopped.feed(Wanted{What::stop, 1, "uid 0 on n1"});
              CHECK(stopped.stops(StopKind::user));
              stopped.stop_all();
              CHECK(stopped.ended(End::stopped));
              CHECK(stopped.state.verdict->exit_code == 130);  // so --requeue does not queue it again
              Job late(phase);
              late.feed(Wanted{What::restart, 0, "uid 0 on n1"});  // of another generation
              CHECK(late.in(phase, 1));
              CHECK(late.last.story.empty());
            }}},
          {"stopping", ignored},
          {"finished", ignored}};
}

/// All agents leave, the last one in this phase.
static void abandon(Job& job) {
  job.feed(Lost{2, "end of file", Ended::goodbye});
  job.feed(Lost{1, "end of file", Ended::goodbye});
}

Row abandoned() {
  Cell const verdict{"verdict", [](Phase phase) {
                       Job job(phase, false, true);
                       abandon(job);
                       CHECK(job.ended(End::too_few_nodes));
                       CHECK(job.did<Close>());
                     }};
  return {{"forming", verdict},
          {"opening, preparing", verdict},
          {"running",
           {"–",
            [](Phase phase) {
              Job job(phase, false, true);
              job.feed(Lost{2, "end of file", Ended::goodbye});
              CHECK(job.state.phase == Phase::stopping);  // so no member can be the last one while it runs
            }}},
          {"stopping",
           {"verdict `too few nodes`, or `stopped` after (user)",
            [](Phase phase) {
              Job lost(phase, false, true);
              abandon(lost);
              CHECK(lost.ended(End::too_few_nodes));
              Job user(phase, false, true);
              user.feed(Quit{15});
              abandon(user);
              CHECK(user.ended(End::stopped));
            }}},
          {"finished", {"closed", [](Phase phase) {
                          Job job(phase, false, true);
                          abandon(job);
                          CHECK(job.did<Close>());
                        }}}};
}

Row timer() {
  return {
      {"forming",
       {"window over: form; timeout: verdict `too few nodes`",
        [](Phase phase) {
          Job job(phase);
          job.now = *job.state.timers.window;
          job.feed(Tick{});
          CHECK(job.in(Phase::opening, 1));
          Job few(phase);
          few.policy.min_nodes = 2;
          few.feed(Lost{1, "reset"});
          few.join(1);
          few.now = *few.state.timers.join;
          few.feed(Tick{});
          CHECK(few.ended(End::too_few_nodes));
        }}},
      {"opening, preparing",
       {"no ack in 30 s (with a health check: more, below): member dropped",
        [](Phase phase) {
          Job job(phase);
          job.feed(Said{1, Ack{1}});
          job.now += 30s;
          job.feed(Tick{});
          CHECK(job.state.roster.present.contains(2) == (phase == Phase::opening));
          CHECK(job.state.roster.present.contains(1));
        }}},
      {"running",
       {"scale-out spacing over",
        [](Phase phase) {
          Job job(phase);
          job.policy.max_nodes = 3;
          job.state.timers.last_scale_out = job.now;
          job.now += 2s;
          job.join(3);
          REQUIRE(job.in(Phase::running, 1));
          job.now += 57s;
          job.feed(Tick{});
          CHECK(job.in(Phase::running, 1));
          job.now += 1s;
          job.feed(Tick{});
          CHECK(job.stops(StopKind::resize));
        }}},
      {"stopping",
       {"no `stopped` in time: member dropped",
        [](Phase phase) {
          Job job(phase);
          job.feed(Said{1, Stopped{1, {}, {}}});
          job.now += job.policy.stop_timeout;
          job.feed(Tick{});
          CHECK_FALSE(job.state.roster.present.contains(2));
          CHECK(job.did<HangUp>());
          CHECK(job.in(Phase::opening, 2));
        }}},
      {"finished",
       {"closed",
        [](Phase phase) {
          Job job(phase);
          job.now += job.policy.linger;
          job.feed(Tick{});
          CHECK(job.did<Close>());
        }}},
  };
}

Row of_another_generation() {
  auto const ignored = [](std::string const& text) {
    return Cell{text, [text](Phase phase) {
                  auto const exit = Job::failure();
                  for (Said const& old : {Said{1, Ack{7}}, Said{1, WorkerFailed{7, exit}}, Said{1, Succeeded{7}},
                                          Said{1, Stopped{7, {exit}, {}}}, Said{1, Progress{7, {}}}}) {
                    Job job(phase);
                    auto const number = job.state.number;
                    job.feed(old);
                    CHECK(job.in(phase, number));
                    CHECK(job.last.actions.empty());
                    if (text == "ignored by name") {
                      CHECK(text_of(job.last.said).find("generation 7") != std::string::npos);
                    }
                  }
                }};
  };
  return {{"forming", ignored("ignored by name")},
          {"opening, preparing", ignored("ignored")},
          {"running", ignored("ignored")},
          {"stopping", ignored("ignored")},
          {"finished", ignored("–")}};
}

}  // namespace cxxrun::test
