// Node: one agent with its parent, its workers and the coordinator inside it: the real cores, and what the shells do
// around them (launcher/agent/agent.cpp, rendezvous/net/coordinator_link.cpp), over the simulated network.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/facts/deadlines.hpp"
#include "launcher/life/agent_state.hpp"
#include "src/base/core/lease_guard.hpp"
#include "tests/simulation/hosted.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/process.hpp"
#include "tests/simulation/workers.hpp"

namespace cxxrun::simulation {

class Job;
namespace agent = launcher::agent;

inline constexpr Port kRendezvousPort = 1000;
inline constexpr Port kStandbyBase = 2000;

/// --time-limit of a node, far beyond the end of any execution and another one for each: so it shows whose end counts.
inline constexpr Millis kBetweenLimits{std::chrono::hours(100)};
[[nodiscard]] constexpr Millis time_limit(std::uint32_t index) {
  return (index + 10) * kBetweenLimits;
}

[[nodiscard]] std::string address_text(HostId host);
[[nodiscard]] HostId host_of(std::string const& address);

class Node {
 public:
  /// `added`: with --join.
  Node(Job& job, std::uint32_t index, HostId host, bool added);
  Node(Node const&) = delete;
  Node& operator=(Node const&) = delete;

  void start();

  // ---- what may happen to it ---------------------------------------------------------------------------------

  void agent_dies(bool parent_too);
  void parent_dies();
  /// Everything of it, and nobody is told.
  void vanishes();
  void freeze_agent();
  void thaw_agent();
  void freeze_parent() { parent.freeze(); }
  void thaw_parent() { parent.thaw(); }
  void signal(int number);

  // ---- what others look at -----------------------------------------------------------------------------------

  Job& job;
  std::uint32_t const index;
  HostId const host;
  bool const added;
  rendezvous::NodeInfo info;
  agent::Policy policy;
  launcher::EndPlan job_end;
  agent::State state;
  Process process;  ///< the agent
  Process parent;
  Hosted hosted;
  std::unique_ptr<Workers> workers;
  std::optional<int> exit_code;
  bool killed = false;
  bool timer_armed = false;
  std::optional<TimePoint> lease;
  [[nodiscard]] std::string name() const { return info.host; }
  [[nodiscard]] bool executing() const;
  [[nodiscard]] bool calling() const;
  [[nodiscard]] bool running() const { return process.alive() && !exit_code; }
  [[nodiscard]] Address standby() const;
  void feed(agent::Event event);
  void leave_if_done();

 private:
  struct Line {  ///< heartbeats of one link
    EndPtr end = nullptr;
    bool calling = false;
    std::optional<rendezvous::Beat> waiting;
    int unanswered = 0;
  };
  struct Link {
    EndPtr end = nullptr;
    bool calling = true;
    bool joins = false;
    std::optional<Micros> wrong_since;  ///< another coordinates, says who is called
    Address to;
    Line beats;
  };

  void perform(agent::TellLink const& action);
  void perform(agent::TellBeat const& action);
  void perform(agent::Dial const& action);
  void perform(agent::HangUp const& action);
  void perform(agent::StartCampaign const& action);
  void perform(agent::Withdraw const& action);
  void perform(agent::Learned const& action);
  void perform(agent::Rejoin const& action);
  void perform(agent::HoldLease const& action);
  void perform(agent::WriteDeathNotice const& action) { death_notice_ = action; }
  void perform(agent::StartWorkers const& action);
  void perform(agent::FillWorkers const& action);
  void perform(agent::RunCheck const& action);
  void perform(agent::StopWorkers const& action);
  void perform(agent::KillWorker const& /*action*/) {}     // workers here have no collectives
  void perform(agent::HandErrorFile const& /*action*/) {}  // nor files
  void perform(agent::Freeze const& action);
  void perform(agent::Thaw const& action);
  void perform(agent::ArmTimer const& action);
  void perform(agent::Exit const& action);

  void call_home(agent::LinkId link, Address at, Micros give_up_at, bool at_home);
  void nobody_home(agent::LinkId link);
  void call(agent::LinkId link, Address at, bool joins, std::function<void(bool refused)> failed);
  void linked(agent::LinkId link, EndPtr end, bool joins, std::function<void(bool)> failed);
  void hang_up(Link& link, rendezvous::Ended ended = rendezvous::Ended::goodbye);
  void open_line(agent::LinkId link);
  void answered(agent::LinkId link, rendezvous::BeatAck ack);
  [[nodiscard]] rendezvous::Hello hello(rendezvous::Hello::Purpose purpose, rendezvous::Hello::Asks asks) const;
  void listen_on_standby();
  void joined(rendezvous::HelloReply const& reply);
  void close_everything(rendezvous::Ended ended);
  void mutate(agent::Event& event);
  void mutate(rendezvous::ToCoordinator& message);
  void guard_lease();
  void freeze_workers(std::string const& by);
  void thaw_workers();
  void send_death_notice();
  void end_sweep();

  std::map<agent::LinkId, Link> links_;
  std::deque<agent::Event> inbox_;
  bool stepping_ = false;
  std::uint64_t timer_ = 0;  ///< which of the timers set is the last
  LeaseGuard guard_;
  std::uint64_t guard_look_ = 0;  ///< which of its looks is the last
  bool agent_froze_ = false;
  bool sweeps_ = false;  ///< the parent is gone: nothing else is done any more
  agent::WriteDeathNotice death_notice_;
  bool stands_by_ = false;  ///< an agent that was added has heard the terms of the run
  Micros join_until_ = 0;
  Address home_;  ///< where the coordinator was called that this agent has joined
};

}  // namespace cxxrun::simulation
