// Hosting: what an agent does for the whole job, besides its own part: it runs the coordinator and the stores, makes
// the log directories of the first generation, writes the discovery file of a run that nodes may be added to, keeps the
// live view (live_job.hpp), and at the end gives the verdict and asks for a requeue. Shell.
//
// The agent of the first node hosts from the beginning. In a job of several nodes every other agent has a coordinator
// on standby, which does nothing until the agent campaigns (docs/design/election.md).
//
// Runs on the thread of the io_context given to it; `begin` may block while a name is resolved.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/agent_config.hpp"
#include "launcher/agent/live_job.hpp"
#include "launcher/job_end/requeue_job.hpp"
#include "rendezvous/net/coordinator.hpp"

namespace cxxrun::os {
class BoundedThread;
}

namespace cxxrun::launcher {

class JobRecord;
class LogPump;

/// Whether the agents are to meet at this one: its options say so, or the address is one of this host's. May block as a
/// resolver does. Errors: those of os::is_local_address.
[[nodiscard]] Result<bool> is_meeting_place(Meeting const& meeting);

/// Listens at one of the meeting's hidden ports, and at one of those that every node can compute. Returns the first of
/// the two ports. Errors: in_use, none is free.
[[nodiscard]] Result<std::uint16_t> listen_for(rendezvous::Coordinator& coordinator, Meeting const& meeting);

/// Where the events of Hosting go: to Agent.
struct HostingInbox {
  virtual void on_run_closed() = 0;                                         ///< the last agent has left
  virtual void on_stepped_down(rendezvous::SteppedDown const& action) = 0;  ///< see CoordinatorInbox
  virtual void on_hang(rendezvous::story::Hang const& hang) = 0;            ///< this node's coordinator has named it
};

class Hosting final : public rendezvous::CoordinatorInbox, public LiveJobInbox {
 public:
  /// `config` and `inbox` outlive it. `standby`: a listening socket, or -1 where no agent can take over from another.
  /// `keep`: see store::StoreServer. `keys`: null with --auth none.
  Hosting(boost::asio::io_context& io, AgentConfig const& config, int standby, store::StoreKeep keep,
          std::shared_ptr<rendezvous::KeyRing> keys, HostingInbox& inbox);
  ~Hosting();
  Hosting(Hosting const&) = delete;
  Hosting& operator=(Hosting const&) = delete;

  /// Listens if this agent is the one to host. Errors: not_found (the endpoint's name), timeout (no name server
  /// answers), in_use (its ports), and those of KeyRing::make: the job's key cannot get to the other nodes.
  Result<void> begin();
  /// Opens the run, if this agent hosts it: the clocks of the first generation start.
  void open();
  /// Makes a coordinator on standby, unless this agent has a coordinator already. `terms`: those of the run
  /// `config.facts.run_id`.
  void stand_by(rendezvous::Terms const& terms);
  /// Drops the coordinator, which no agent has joined.
  void abandon();
  void start_campaign(rendezvous::Campaign campaign);
  /// Tells the coordinator what its own agent has learned.
  void tell(std::variant<rendezvous::Withdraw, rendezvous::Learned> news);
  /// Gives the coordinator the new incarnation of its agent.
  void rename();
  /// If this agent coordinates the job: writes the discovery file, and the first time looks at --progress-path.
  void on_workers_start();
  /// Whether the job's coordinator is in this agent, and some agents have not left it yet.
  [[nodiscard]] bool active() const { return coordinator_ && !closed_ && coordinator_->leads(); }
  /// Where the coordinator listens, if this agent hosts it from the beginning.
  [[nodiscard]] std::optional<std::uint16_t> port() const {
    return coordinator_ && hosts_ ? std::optional(port_) : std::nullopt;
  }
  /// Writes the report and the time account to the console, and ends the job's record. False: no run was concluded
  /// here.
  bool tell_verdict(LogPump& pump);
  /// After the verdict: asks Slurm for a requeue if the end of the job is a reason for one. Returns the exit code that
  /// takes the place of the verdict's, if any.
  [[nodiscard]] std::optional<int> requeue(Reached const& reached);

 private:
  void make_coordinator(std::string const& fence_dir);
  void on_concluded(std::string const& run_id, rendezvous::Verdict const& verdict) override;
  void on_run_closed() override;
  void on_story_event(std::string const& run_id, rendezvous::story::Event const& event) override;
  void on_stepped_down(rendezvous::SteppedDown const& action) override { inbox_.on_stepped_down(action); }
  void tell(rendezvous::AgentId agent, rendezvous::LiveDown const& message) override;
  std::string want(rendezvous::AgentId agent, rendezvous::Wanted wanted) override;
  [[nodiscard]] std::optional<rendezvous::History> history(rendezvous::AgentId agent,
                                                           rendezvous::StepTimes const& steps,
                                                           std::optional<TimePoint> idle_until) const override;
  void on_live(std::string const& run_id, rendezvous::AgentId agent, std::string const& host,
               rendezvous::LiveUp&& message) override;
  Result<std::uint16_t> listen();
  void listen_for_followers();
  void make_first_directories();
  void on_elected(rendezvous::story::TookOver const& how);
  void describe(std::uint64_t generation, rendezvous::Ballot ballot);
  void announce();

  boost::asio::io_context& io_;
  AgentConfig const& config_;
  int standby_;  ///< owned by the agent, since it outlives each coordinator
  store::StoreKeep keep_;
  std::shared_ptr<rendezvous::KeyRing> keys_;
  HostingInbox& inbox_;
  std::unique_ptr<os::BoundedThread> directories_;
  std::unique_ptr<os::BoundedThread> announcing_;
  Discovery self_;  ///< content of the discovery file; path "": none is written
  std::shared_ptr<std::atomic<bool>> said_unwritten_ = std::make_shared<std::atomic<bool>>();
  std::unique_ptr<store::StoreServer> stores_;
  std::unique_ptr<rendezvous::Coordinator> coordinator_;
  std::uint16_t port_ = 0;
  bool hosts_ = false;
  bool elsewhere_ = false;  ///< listens at a port that only the discovery file tells
  bool closed_ = false;     ///< every agent has left the coordinator
  bool led_ = false;        ///< workers have started while this agent led
  RequeueJob requeue_{config_.options, config_.environment};
  std::unique_ptr<JobRecord> record_;  ///< from the first event on
  std::unique_ptr<LiveJob> live_;      ///< from the first event on
  std::optional<rendezvous::Verdict> verdict_;
};

}  // namespace cxxrun::launcher
