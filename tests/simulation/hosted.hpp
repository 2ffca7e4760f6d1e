// Hosted: the coordinator inside an agent: the real membership core, and what rendezvous/net/coordinator.cpp and
// run.cpp do around it: one run, opened by the host and on standby everywhere else, and a fresh one after it was
// deposed.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/history/policy.hpp"
#include "rendezvous/membership/events.hpp"
#include "rendezvous/net/run_table.hpp"
#include "rendezvous/trust/secure_channel.hpp"
#include "tests/simulation/network.hpp"

namespace cxxrun::rendezvous {
struct State;
}

namespace cxxrun::simulation {

class Job;
class Node;

inline constexpr char const* kRunId = "1.0";

class Hosted {
 public:
  Hosted(Job& job, Node& node);
  ~Hosted();

  void open();
  void stand_by(rendezvous::Terms const& terms);
  /// As if there had been none.
  void abandon();
  /// To agents that are added, if it leads.
  void announce();
  void start_campaign(rendezvous::Campaign campaign);
  void accept(EndPtr end);
  void feed(rendezvous::Event event);
  void die() { over_ = true; }
  void hang_up_all(rendezvous::Ended ended = rendezvous::Ended::goodbye);
  /// It coordinates, or stands for election.
  [[nodiscard]] bool active() const;
  /// Whoever joins is let in, and the process stays.
  [[nodiscard]] bool leads() const;

  [[nodiscard]] rendezvous::State const& state() const { return *state_; }
  rendezvous::Policy policy;
  bool timer_armed = false;
  bool opening_store = false;
  bool claiming = false;
  [[nodiscard]] bool over() const { return over_; }

 private:
  struct Peer {
    EndPtr end = nullptr;
    rendezvous::Hello hello;
    std::optional<rendezvous::SecureChannel> guard;  ///< of one that says bytes
    rendezvous::AgentId other = 0;                   ///< of a beat connection its member, and the other way round
    std::optional<rendezvous::Beat> early;           ///< of one without a member yet
    enum class At { hello, first, member, beat, death_notice } at = At::hello;
  };
  using AgentId = rendezvous::AgentId;

  void received(AgentId id, Frame const& frame);
  void received_raw(AgentId id, std::string const& bytes);
  void pass_on(AgentId id, std::string const& payload);
  void greeted(AgentId id, Peer& peer, rendezvous::Hello const& hello);
  [[nodiscard]] rendezvous::MemberEnds ends_of(Peer const& peer) const;
  void first(AgentId id, Peer& peer, rendezvous::ToCoordinator message);
  void said(AgentId id, rendezvous::ToCoordinator message);
  void beat(AgentId id, Peer& peer, rendezvous::Beat const& beat);
  void closed(AgentId id, rendezvous::Ended ended);
  void forget(AgentId id, rendezvous::Ended ended = rendezvous::Ended::goodbye);
  void begin_run(bool standby);
  void hang_up_members();
  void mutate(rendezvous::Event& event);
  void mutate_state();
  void take_for_all(std::set<std::uint32_t>& ranks) const;
  [[nodiscard]] std::size_t left_alive() const;

  void perform(rendezvous::Tell const& action);
  void perform(rendezvous::TellBeat const& action);
  void perform(rendezvous::ClaimFence const& action);
  void perform(rendezvous::SteppedDown const& action);
  void perform(rendezvous::OpenStore const& action);
  void perform(rendezvous::CloseStore const&) {}
  void perform(rendezvous::HangUp const& action) { forget(action.agent); }
  void perform(rendezvous::ArmTimer const& action);
  void perform(rendezvous::Conclude const& action);
  void perform(rendezvous::Close const& action);

  std::unique_ptr<rendezvous::State> state_;
  Job& job_;
  Node& node_;
  rendezvous::RunTable table_;  ///< of one run
  std::map<AgentId, Peer> peers_;
  std::map<std::string, AgentId> members_;  ///< by incarnation
  std::deque<rendezvous::Event> inbox_;
  std::pair<std::uint64_t, rendezvous::Ballot> elected_{};
  AgentId last_id_ = 0;
  std::uint64_t run_ = 0;    ///< which of the runs
  std::uint64_t timer_ = 0;  ///< which of the timers set is the last
  std::uint64_t store_ = 0;  ///< the last one that was to be opened
  bool stepping_ = false;
  bool over_ = true;  ///< there is no run, or none any more
};

}  // namespace cxxrun::simulation
