// Run: the shell around the membership of one run. It turns messages, lost connections and its timer into events and
// performs the actions; membership.hpp decides.
//
// Runs on the thread of the io_context given to it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/membership/events.hpp"
#include "rendezvous/membership/membership.hpp"
#include "rendezvous/net/peers.hpp"
#include "rendezvous/net/run_table.hpp"
#include "rendezvous/net/store_policy.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "src/base/core/complaints.hpp"
#include "src/base/os/state_machine.hpp"
#include "src/base/os/timer.hpp"
#include "src/base/store/store_server.hpp"

namespace cxxrun::rendezvous {

struct RunConfig {
  RunKey key = 0;
  std::string id;
  std::string label;  ///< starts each log line; "" = none
  Policy policy;
  std::uint64_t number = 0;            ///< the last generation number used before
  std::uint32_t restarts = 0;          ///< consumed before this run
  std::vector<NodeFault> node_faults;  ///< of earlier runs
  bool standby = false;                ///< another agent coordinates
  bool loopback_only = false;
  PortRange store_ports;
};

/// Where the events of Runs go: to Coordinator::Impl. Called from within `feed`. No function may destroy the Run.
struct RunInbox {
  /// Claim the fence for a decision of the members with this digest; feed the answer as Fenced.
  virtual void claim_fence(RunConfig const& run, std::uint64_t of, AcceptedDecree const& value) = 0;
  virtual void on_progress(RunKey run, std::uint64_t number, std::uint32_t restarts, bool leads) = 0;
  virtual void on_live(std::string const& run_id, AgentId agent, std::string const& host, LiveUp&& message) = 0;
  virtual void on_story_event(std::string const& run_id, story::Event const& event) = 0;
  virtual void on_stepped_down(SteppedDown const& action) = 0;
  virtual void on_concluded(RunConfig const& run, Verdict const& verdict) = 0;  ///< once
  virtual void on_run_closed(RunKey run) = 0;  ///< once, after `on_concluded` or `on_stepped_down`; nothing follows
};

class Run : public std::enable_shared_from_this<Run> {
 public:
  /// `peers`: the connections of its agents, among others. They and `inbox` outlive it.
  Run(boost::asio::io_context& io, store::StoreServer& stores, Peers& peers, RunConfig config, RunInbox& inbox);
  ~Run();  ///< Closes its store; no event follows.
  Run(Run const&) = delete;
  Run& operator=(Run const&) = delete;

  void feed(Event event);
  /// A member's message; `host` is for log lines.
  void on_message(AgentId agent, std::string const& host, MemberEnds const& ends, std::string const& payload);
  /// Feeds it, unless there is an objection to it, which it returns.
  std::string want(Wanted wanted);
  [[nodiscard]] Phase phase() const { return machine_.state.phase; }
  /// so_far() of the ledger; while nodes are waited for, no worker runs until now.
  [[nodiscard]] std::optional<History> history(StepTimes const& steps, std::optional<TimePoint> idle_until) const;

 private:
  friend os::Machine<State, Event>;
  [[nodiscard]] Policy const& policy() const { return config_.policy; }
  void say(Line const& line);
  void stepped();
  void record(story::Event const& event) { inbox_.on_story_event(config_.id, event); }
  void perform(Tell const& action) { peers_.send(action.agent, encode(action.message)); }
  void perform(TellBeat const& action) { peers_.send_beat(action.agent, encode(action.ack)); }
  void perform(HangUp const& action);
  void perform(ClaimFence const& action);
  void perform(SteppedDown const& action) { inbox_.on_stepped_down(action); }
  void perform(OpenStore const& action);
  void perform(CloseStore const& action) { stores_.close(store_key(action.number)); }
  void perform(ArmTimer const& action);
  void perform(Conclude const& action) { inbox_.on_concluded(config_, action.verdict); }
  void perform(Close const& action);
  void on_message(AgentId agent, MemberEnds const& ends, AboutCallers&& message);
  void ask_hosts(std::uint64_t number, std::vector<store::CallerQuestion> const& questions);
  Result<std::uint16_t> open_store(std::uint64_t number, PortPlan const& plan);
  [[nodiscard]] std::uint64_t store_key(std::uint64_t number) const;
  void end();

  boost::asio::io_context& io_;
  store::StoreServer& stores_;
  Peers& peers_;
  RunConfig config_;
  RunInbox& inbox_;
  // step(): rendezvous/membership/membership.cpp
  os::Machine<State, Event> machine_;
  os::Timer timer_;
  Complaints complaints_;
  AddressBook book_;  ///< of the agents that have announced their addresses
  bool over_ = false;
};

}  // namespace cxxrun::rendezvous
