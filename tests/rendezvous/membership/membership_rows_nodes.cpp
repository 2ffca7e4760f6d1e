// The rows of the table in docs/design/membership.md about nodes that come and go, stores and acks.
#include "tests/support/membership_job.hpp"

using namespace std::chrono_literals;

namespace cxxrun::test {

Row joins() {
  return {
      {"forming",
       {"form if complete, else window",
        [](Phase phase) {
          Job complete(phase);
          complete.join(2);
          CHECK(complete.in(Phase::opening, 1));
          Job waits(phase);
          CHECK(waits.state.timers.window);
        }}},
      {"opening, preparing",
       {"wait as spare",
        [](Phase phase) {
          Job job(phase);
          job.join(3);
          CHECK(job.in(phase, 1));
          CHECK(job.state.roster.present.size() == 3);
        }}},
      {"running",
       {"seat free: stop (resize), else spare; always spare with `--scale-out=at-restart`",
        [](Phase phase) {
          Job full(phase);
          full.join(3);
          CHECK(full.in(Phase::running, 1));
          full.policy.max_nodes = 3;
          full.join(4);
          CHECK(full.stops(StopKind::resize));
          Job soon(phase);
          soon.policy.max_nodes = 3;
          soon.state.timers.last_scale_out = soon.now - 1999ms;
          soon.join(3);
          CHECK(soon.stops(StopKind::resize));
          CHECK(soon.state.timers.last_scale_out == soon.now - 1999ms);
          Job later(phase);
          later.policy.max_nodes = 3;
          later.policy.scale_out_now = false;
          later.join(3);
          CHECK(later.in(Phase::running, 1));
        }}},
      {"stopping",
       {"considered when forming",
        [](Phase phase) {
          Job job(phase);
          job.policy.max_nodes = 3;
          job.join(3);
          CHECK(job.in(Phase::stopping, 1));
          job.stop_all();
          CHECK(job.in(Phase::opening, 2));
          CHECK(job.state.group.seats.size() == 3);
        }}},
      {"finished",
       {"refused with the job's code: the job is over",
        [](Phase phase) {
          Job job(phase);
          job.join(3);
          REQUIRE(job.told<Refused>(3) != nullptr);
          CHECK(job.told<Refused>(3)->exit_code == 0);
        }}},
  };
}

Row complete_again() {
  auto const tell = [](Job& job, AgentId agent) {
    job.state.roster.left_out.emplace(agent, Lacking{1, true});
    job.feed(Said{agent, Complete{1}});
  };
  return {
      {"forming",
       {"form if complete, else window",
        [tell](Phase phase) {
          Job job(phase);
          job.state.timers.window.reset();
          tell(job, 1);
          CHECK(job.in(Phase::forming, 0));
          CHECK(job.state.timers.window);
        }}},
      {"opening, preparing",
       {"enters when they run",
        [tell](Phase phase) {
          Job job(phase);
          job.join(3);
          tell(job, 3);
          CHECK(job.in(phase, 1));
          CHECK(job.state.roster.left_out.at(3).whole);
        }}},
      {"running",
       {"seat free: stop (resize)",
        [tell](Phase phase) {
          Job job(phase);
          job.join(3);
          job.policy.max_nodes = 3;
          tell(job, 3);
          CHECK(job.stops(StopKind::resize));
          Job full(phase);
          full.join(3);
          tell(full, 3);
          CHECK(full.in(Phase::running, 1));
        }}},
      {"stopping",
       {"considered when forming",
        [tell](Phase phase) {
          Job job(phase);
          job.join(3);
          job.policy.max_nodes = 3;
          tell(job, 3);
          CHECK(job.in(Phase::stopping, 1));
          job.stop_all();
          CHECK(job.in(Phase::opening, 2));
          CHECK(job.state.group.seats.size() == 3);
        }}},
      {"finished",
       {"–",
        [tell](Phase phase) {
          Job job(phase);
          tell(job, 1);
          CHECK(job.in(Phase::finished, 1));
        }}},
  };
}

Row member_lost() {
  return {
      {"forming",
       {"one fewer",
        [](Phase phase) {
          Job job(phase);
          job.feed(Lost{1, "reset"});
          CHECK(job.in(Phase::forming, 0));
          CHECK(job.state.roster.present.empty());
        }}},
      {"opening, preparing",
       {"back to forming, number used up",
        [](Phase phase) {
          Job job(phase);
          job.feed(Lost{2, "reset"});
          CHECK(job.in(Phase::forming, 1));
          CHECK(job.did<CloseStore>());
          CHECK(job.state.roster.losses.at("#1") == 1);
        }}},
      {"running",
       {"stop (failure): node lost; after its success: nothing",
        [](Phase phase) {
          Job job(phase);
          job.feed(Lost{2, "reset"});
          CHECK(job.stops(StopKind::failure));
          CHECK(job.told<Stop>(1) != nullptr);
          Job done(phase);
          done.feed(Said{2, Succeeded{1}});
          done.feed(Lost{2, "reset"});
          CHECK(done.in(Phase::running, 1));
        }}},
      {"stopping",
       {"counts as stopped",
        [](Phase phase) {
          Job job(phase);
          job.feed(Said{1, Stopped{1, {}, {}}});
          job.feed(Lost{2, "reset"});
          CHECK(job.in(Phase::opening, 2));         // at once, with the nodes that are left
          CHECK(job.state.restarts.consumed == 0);  // a node lost is not a worker failed
        }}},
      {"finished",
       {"closed when the last has gone, and each that was cut off with its work done has called for the verdict",
        [](Phase phase) {
          Job job(phase);
          job.feed(Lost{2, "end of file", Ended::goodbye});
          CHECK_FALSE(job.did<Close>());
          job.feed(Lost{1, "end of file", Ended::goodbye});
          CHECK(job.did<Close>());
        }}},
  };
}

/// All three reasons for a refusal, in any phase.
static void refuses(Phase phase, bool by_name) {
  Job taken(phase);
  taken.join(9, false, 0);
  REQUIRE(taken.told<Refused>(9) != nullptr);
  CHECK(taken.did<HangUp>());
  if (by_name) {
    CHECK(taken.told<Refused>(9)->why.find("n0") != std::string::npos);
  }
  for (bool const flaps : {true, false}) {
    Job job(phase);
    NodeInfo const other = node(7);
    if (flaps) {
      job.state.roster.losses["#7"] = 3;
    } else {
      job.state.roster.unfit["#7"] = "n7: why";
    }
    auto const present = job.state.roster.present.size();
    job.feed(Joined{9, other});
    REQUIRE(job.told<Refused>(9) != nullptr);
    CHECK(job.state.roster.present.size() == present);
    if (phase != Phase::finished) {
      CHECK(job.told<Refused>(9)->exit_code == kExitTooFewNodes);
    }
  }
}

Row refused() {
  auto const cell = [](std::string const& text) {
    return Cell{text, [text](Phase phase) { refuses(phase, text == "refused by name"); }};
  };
  return {{"forming", cell("refused by name")},
          {"opening, preparing", cell("refused")},
          {"running", cell("refused")},
          {"stopping", cell("refused")},
          {"finished", cell("refused")}};
}

Row spare_lost() {
  Cell const forgotten{"forgotten", [](Phase phase) {
                         Job job(phase, true);
                         job.feed(Lost{3, "reset"});
                         CHECK(job.in(phase, 1));
                         CHECK(job.state.roster.present.size() == 2);
                       }};
  return {{"forming", member_lost().at("forming")},
          {"opening, preparing", forgotten},
          {"running", forgotten},
          {"stopping", forgotten},
          {"finished", nothing(
                           [](Job const&) {
                             return Event{Lost{3, "reset"}};
                           },
                           true)}};
}

Row store() {
  auto const late = nothing([](Job const&) { return Event{StoreOpened{1, 1, 1}}; });
  return {{"forming", late},
          {"opening, preparing",
           {"preparing / verdict `system failure`",
            [](Phase phase) {
              Job job(phase);
              job.feed(StoreOpened{1, 1, 1});
              CHECK(job.state.phase == Phase::preparing);
              if (phase == Phase::opening) {
                Job fails(phase);
                fails.feed(StoreFailed{1, "port taken"});
                CHECK(fails.ended(End::system_failure));
              }
            }}},
          {"running", late},
          {"stopping", late},
          {"finished", late}};
}

Row ack() {
  auto const late = nothing([](Job const& job) { return Event{Said{2, Ack{job.state.number}}}; });
  return {{"forming",
           {"–",
            [](Phase phase) {
              Job job(phase);
              job.feed(Said{1, Ack{0}});
              CHECK(job.in(Phase::forming, 0));
            }}},
          {"opening, preparing",
           {"the last one: start to all",
            [](Phase phase) {
              Job job(phase);
              job.feed(Said{1, Ack{1}});
              CHECK(job.in(phase, 1));
              job.feed(Said{2, Ack{1}});
              CHECK((phase == Phase::opening || (job.told<Start>(1) != nullptr && job.told<Start>(2) != nullptr)));
            }}},
          {"running", late},
          {"stopping", late},
          {"finished", late}};
}

}  // namespace cxxrun::test
