#include "rendezvous/membership/finishing.hpp"

#include <string>
#include <utility>

#include "rendezvous/membership/books.hpp"
#include "src/core/text.hpp"

namespace cxxrun::rendezvous {
namespace {

/// Nodes of the step that have not come yet would look for a coordinator that is gone, for as long as join_timeout.
/// Whoever was told to end by a signal was told on every node.
bool others_will_come(State const& state, Policy const& policy) {
  End const end = state.verdict->end;
  return state.election.succession != Succession::happened && policy.expected_nodes &&
         state.roster.came.size() < *policy.expected_nodes && !policy.ends_when_empty && end != End::stopped &&
         end != End::too_few_nodes;
}

}  // namespace

void begin_finishing(Turn& turn, Verdict verdict) {
  State& state = turn.state;
  state.timers.answer = turn.now + turn.policy.linger;
  for (auto const& [agent, follower_info] : std::exchange(state.election.followers, {})) {
    state.roster.excluded.emplace(agent, follower_info.node);
  }
  state.election.voters.clear();  // nothing is decided any more
  dismiss(turn);
  // Said once for the job: by the coordinator's own agent, in its report, else by the first agent that hears it.
  bool const by_agent = turn.policy.ends_when_empty && verdict.end != End::success;
  std::string line = by_agent ? std::string(name_of(verdict.end)) + ": " + verdict.summary : "";
  for (auto const* const agents : {&state.roster.present, &state.roster.excluded}) {
    for (auto const& [agent, node] : *agents) {
      turn.act(Tell{agent, Finished{verdict.exit_code, std::exchange(line, "")}});
    }
  }
  turn.say(Level::info, std::string("verdict: ") + name_of(verdict.end) +
                            (verdict.end == End::success && !verdict.lost_nodes.empty()
                                 ? "; lost on the way: " + join(verdict.lost_nodes, ", ")
                                 : ""));
  turn.act(Conclude{verdict});
  state.verdict = std::move(verdict);
  close_if_alone(turn);
}

void close(Turn& turn) {
  if (!std::exchange(turn.state.closed, true)) {
    turn.act(Close{});
  }
}

void close_if_alone(Turn& turn) {
  State const& state = turn.state;
  if (state.roster.present.empty() && state.roster.excluded.empty() && !others_will_come(state, turn.policy)) {
    close(turn);
  }
}

}  // namespace cxxrun::rendezvous
