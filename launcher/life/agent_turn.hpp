// What the source files of the agent's state machine share. Internal to launcher/life.
#pragma once

#include <csignal>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "launcher/life/agent_state.hpp"

namespace cxxrun::launcher::agent {

struct Turn : BasicTurn<State, Action, Policy> {
  bool late = false;  ///< our own timer is so late that this node, or the job, has been suspended

  /// A line about this node's workers. Debug where this agent coordinates: its coordinator has logged the same.
  void say_here(Level level, std::string text) {
    say(rendezvous::follower::leads(state.follower) ? Level::debug : level, std::move(text));
  }
  /// To the coordinator; dropped while there is none. In agent_following.cpp.
  void tell(rendezvous::ToCoordinator message);
  /// Calls a function of the follower, whose actions become this turn's.
  template <class Function>
  auto delegate(Function function) {
    std::vector<rendezvous::follower::Action> asked;
    rendezvous::follower::Turn inner{
        {state.follower, asked, said, now, policy}, may_have_workers(), ago(state.steps, now)};
    if constexpr (std::is_void_v<decltype(function(inner))>) {
      function(inner);
      take(asked);
    } else {
      auto result = function(inner);
      take(asked);
      return result;
    }
  }
  void take(std::vector<rendezvous::follower::Action>& asked) {
    for (auto& action : asked) {
      std::visit([&](auto& concrete) { act(std::move(concrete)); }, action);
    }
  }
  [[nodiscard]] bool may_have_workers() const { return state.workers || !state.unkillable.empty(); }
};

// ---- agent_workers.cpp: workers, and the end ---------------------------------------------------------------------

/// Workers or the health check run: this agent must not leave before they are gone.
[[nodiscard]] bool has_processes(Life life);
/// Processes run, or workers wait for the next generation.
[[nodiscard]] bool has_anybody(State const& state);
[[nodiscard]] std::uint64_t number_of(State const& state);
/// Leaves at once, or when the workers that wait were stopped.
void leave(Turn& turn, int code, std::string line);
void say_stopped(Turn& turn);
/// Says so, and waits for the next generation, or, drained, for the end of the job.
void rest(Turn& turn);
[[nodiscard]] StopWorkers stop_order(Turn const& turn, Millis grace, int signal = SIGTERM, bool send_signal = true);
/// Like stop_order, but keeps workers that survive if `parks` is set: the job may go on.
[[nodiscard]] StopWorkers park_order(Turn const& turn, Millis grace, bool send_signal = true);
/// Stops the workers that wait. Nothing depends on them, so they get the usual grace.
void stop_waiting(Turn& turn);
/// Stops workers because this agent ends. A health check has nothing to save, and is killed.
void stop_to_leave(Turn& turn, Millis grace, int signal = SIGTERM, bool send_signal = true);
void start_workers(Turn& turn);
/// Accepts the generation that was offered.
void acknowledge(Turn& turn);
/// The coordinator was told everything: waits for its final message.
void say_farewell(Turn& turn);
/// The coordinator has answered: waits longer for its final message, which comes when it no longer needs this agent's
/// vote.
void stay_to_vote(Turn& turn);
void on_worker_ended(Turn& turn, WorkerEnded const& event);
void on_group_ended(Turn& turn, GroupEnded const& event);
void on_filled(Turn& turn, Filled const& event);
void on_end_signal(Turn& turn, EndSignal const& event);
void on_kill_signal(Turn& turn);

// ---- agent_lease.cpp: until when workers may run -----------------------------------------------------------------

/// Takes the lease that came with Start. Sets `held` if it has expired already.
void take_lease(Turn& turn, rendezvous::Start const& message);
/// An answer to a beat has come on the link that is obeyed.
void renew_lease(Turn& turn, rendezvous::BeatAck const& ack);
/// Kills or freezes the workers if their lease has expired. Called before each event, so that no event comes first.
void check_lease(Turn& turn);
/// Without grace: they may not run any longer.
void kill_workers(Turn& turn, std::string const& why);
/// Tells the parent process until when workers may run.
void hold_lease(Turn& turn);
void write_death_notice(Turn& turn);
void clear_death_notice(Turn& turn);
/// When check_lease is due.
[[nodiscard]] std::optional<TimePoint> lease_due(State const& state);

// ---- agent_following.cpp: whom this agent follows ----------------------------------------------------------------

/// The coordinator is lost: looks for the next one, calls it again, or ends with the job.
void lose_coordinator(Turn& turn, std::string const& how, rendezvous::Ended ended = rendezvous::Ended::silent);
/// Ends with the job if the lost coordinator, which was called again, is lost for good.
void give_up_recall(Turn& turn);
/// Whether this agent was added to the job and has been in no generation: the job does not miss it, and it may look for
/// the job again.
[[nodiscard]] bool may_look_again(Turn const& turn);
/// Joins again as at the start.
void look_again(Turn& turn, std::string const& why);
/// Whether a message about workers is to be obeyed. If so, its sender is the coordinator from now on.
[[nodiscard]] bool accept_lead(Turn& turn, LinkId link, rendezvous::ToAgent const& message);
void on_decided(Turn& turn, LinkId link, rendezvous::Decided const& message);
void on_dropped(Turn& turn, LinkId link, rendezvous::Dropped const& message);
/// Joins with a new incarnation. No workers run.
void rejoin(Turn& turn);
/// Sends beats, and notices that the coordinator is silent or a search is over.
void on_following_tick(Turn& turn);

}  // namespace cxxrun::launcher::agent
