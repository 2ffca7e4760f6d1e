// The parts of the agent's state machine, as they call each other. Internal to agent_fsm.
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

  /// Of this node's workers: once on each node, and the coordinator inside this agent has said it for its own.
  void say_here(Level level, std::string text) {
    say(rendezvous::follower::leads(state.follower) ? Level::debug : level, std::move(text));
  }
  /// To whoever coordinates; to nobody while nobody does.
  void tell(rendezvous::ToCoordinator message);
  /// A function of the follower, whose actions become this turn's.
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

/// Processes of ours run, be it workers or the health check: nobody leaves before they are gone.
[[nodiscard]] bool has_processes(Life life);
/// The same, or workers wait for the next generation.
[[nodiscard]] bool has_anybody(State const& state);
[[nodiscard]] std::uint64_t number_of(State const& state);
/// At once, or when the workers that wait have been stopped.
void leave(Turn& turn, int code, std::string line);
void say_stopped(Turn& turn);
[[nodiscard]] StopWorkers stop_order(Turn const& turn, Millis grace, int signal = SIGTERM, bool send_signal = true);
/// A stop after which the job may go on: keeps workers that survive.
[[nodiscard]] StopWorkers park_order(Turn const& turn, Millis grace, bool send_signal = true);
/// Stops the workers that wait. They hold nothing, so nobody is in a hurry.
void stop_waiting(Turn& turn);
/// Stops what runs because this agent ends. A health check has nothing to save: it is killed.
void stop_to_leave(Turn& turn, Millis grace, int signal = SIGTERM, bool send_signal = true);
void start_workers(Turn& turn);
/// Ready for the generation that was offered.
void acknowledge(Turn& turn);
/// Told all there is to tell: waits for the coordinator's final message.
void say_farewell(Turn& turn);
/// The coordinator has answered: it says its final message when it needs the vote of this agent no more.
void stay_to_vote(Turn& turn);
void on(Turn& turn, WorkerEnded const& event);
void on(Turn& turn, GroupEnded const& event);
void on(Turn& turn, Filled const& event);
void on(Turn& turn, EndSignal const& event);
void on(Turn& turn, KillSignal const& event);

// ---- agent_lease.cpp: until when workers may run -----------------------------------------------------------------

/// The lease that came with Start; `held` when it is over already.
void take_lease(Turn& turn, rendezvous::Start const& message);
/// An answer to a beat, on the link that is obeyed.
void renew_lease(Turn& turn, rendezvous::BeatAck const& ack);
/// Kills the workers, or freezes them, when their lease is over. Before every event: nothing may come first.
void check_lease(Turn& turn);
/// No grace: they may not run any more.
void kill_workers(Turn& turn, std::string const& why);
void hold_lease(Turn& turn);
void write_death_notice(Turn& turn);
void clear_death_notice(Turn& turn);
/// When check_lease has something to do.
[[nodiscard]] std::optional<TimePoint> lease_due(State const& state);

// ---- agent_following.cpp: whom this agent follows ----------------------------------------------------------------

/// The coordinator is gone: looks for the next one, or ends as the job does.
void lose_coordinator(Turn& turn, std::string const& how, rendezvous::Ended ended = rendezvous::Ended::silent);
/// Ends as the job does, when the coordinator that was called again does not come back.
void give_up_recall(Turn& turn);
/// Whether this agent was added to the job, and has taken no part in it: nobody misses it, and it may begin anew.
[[nodiscard]] bool may_look_again(Turn const& turn);
/// It does, as at the start.
void look_again(Turn& turn, std::string const& why);
/// Whether a message about workers is to be obeyed; whoever sends it leads from now on.
[[nodiscard]] bool accept_lead(Turn& turn, LinkId link, rendezvous::ToAgent const& message);
void hear(Turn& turn, LinkId link, rendezvous::Decided const& message);
void hear(Turn& turn, LinkId link, rendezvous::Dropped const& message);
/// Begins anew as somebody else, now that no workers run.
void rejoin(Turn& turn);
void following_tick(Turn& turn);

}  // namespace cxxrun::launcher::agent
