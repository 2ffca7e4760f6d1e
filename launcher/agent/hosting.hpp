// Hosting: what an agent does besides its own part: the coordinator, the stores, the log directories of the first
// generation, the discovery file of a run that nodes may be added to, and at the end the verdict and the requeue.
//
// The agent of the first node hosts from the beginning. Every other one of a job with several nodes has a coordinator
// on standby, which does nothing until the agent campaigns (docs/design/election.md). Whoever coordinates keeps the
// live view of the job (live_job.hpp).
//
// Runs on the thread of the io_context given to it; `begin` may block while a name is resolved.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/agent_config.hpp"
#include "launcher/job_end/requeue_job.hpp"
#include "rendezvous/net/server.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::os {
class BoundedThread;
}

namespace cxxrun::launcher {

class Chronicle;
class LiveJob;
class LogPump;

/// Whether the others are to meet at this agent: as it was told, or because the address is one of this host's. May
/// block as a resolver does; errors are those of os::is_local_address.
[[nodiscard]] Result<bool> is_meeting_place(Meeting const& meeting);

/// At one of the meeting's hidden ports, and at one of those that every node can compute. Returns the first that it
/// got. Errors: in_use, it got none.
[[nodiscard]] Result<std::uint16_t> listen_for(rendezvous::Coordinator& coordinator, Meeting const& meeting);

class Hosting {
 public:
  /// `config` must outlive this.
  /// `standby`: listens already; none when nobody can take over from anybody.
  /// `keep`: see store::StoreServer.
  /// `keys`: none with --auth none.
  Hosting(boost::asio::io_context& io, AgentConfig const& config, int standby, store::StoreKeep keep,
          std::shared_ptr<rendezvous::KeyRing> keys, rendezvous::CoordinatorHandlers handlers);
  ~Hosting();
  Hosting(Hosting const&) = delete;
  Hosting& operator=(Hosting const&) = delete;

  /// Listens when this agent is the one to host. Errors: not_found (the endpoint's name), in_use (its ports), and no
  /// way for the job's key to other nodes.
  Result<void> begin();
  /// Starts the clocks of the first generation.
  void open();
  /// Another agent coordinates, unless there is a coordinator here: gets ready to take over from it. `terms`: of the
  /// run, which is `config.facts.run_id`.
  void stand_by(rendezvous::Terms const& terms);
  /// Drops a coordinator that nobody has joined.
  void abandon();
  void start_campaign(rendezvous::Campaign campaign);
  /// Of this agent.
  void tell(std::variant<rendezvous::Withdraw, rendezvous::Learned> news);
  /// This agent has a new incarnation, and so has its coordinator.
  void rename();
  /// Workers start. When this agent leads the job: sees to it that agents that are added find it, and looks at
  /// --progress-path the first time.
  void lead();
  /// Whether the coordinator of the job is in this agent, and has not yet seen everybody off.
  [[nodiscard]] bool active() const { return coordinator_ && !closed_ && coordinator_->leads(); }
  /// Where the coordinator listens, when this agent hosts.
  [[nodiscard]] std::optional<std::uint16_t> port() const {
    return coordinator_ && hosts_ ? std::optional(port_) : std::nullopt;
  }
  /// The report and the account to the console, and the files of chronicle.hpp. False: no run was concluded here.
  bool tell_verdict(LogPump& pump);
  /// Asks Slurm for a requeue after that, if it is a reason. Returns the exit code that takes the place of the
  /// verdict's.
  [[nodiscard]] std::optional<int> requeue(bool checkpoint_passed, bool limit_reached);

 private:
  void make_coordinator(std::string const& fence_dir);
  void happened(std::string const& run_id, rendezvous::story::Event const& event);
  Result<std::uint16_t> listen();
  void listen_for_followers();
  void begin_directories();
  void elected(rendezvous::story::TookOver const& how);
  void describe(std::uint64_t generation, rendezvous::Ballot ballot);
  void announce();

  boost::asio::io_context& io_;
  AgentConfig const& config_;
  int standby_;  ///< the agent's, which may outlive a coordinator
  store::StoreKeep keep_;
  std::shared_ptr<rendezvous::KeyRing> keys_;
  rendezvous::CoordinatorHandlers handlers_;  ///< but for `concluded`
  std::unique_ptr<os::BoundedThread> directories_;
  std::unique_ptr<os::BoundedThread> announcing_;
  Discovery self_;  ///< what agents that are added are told once this one leads; path "": nothing
  std::shared_ptr<std::atomic<bool>> untold_ = std::make_shared<std::atomic<bool>>();  ///< and that this failed
  std::unique_ptr<store::StoreServer> stores_;
  std::unique_ptr<rendezvous::Coordinator> coordinator_;
  std::uint16_t port_ = 0;
  bool hosts_ = false;
  bool elsewhere_ = false;  ///< at a port that only the discovery file tells
  bool closed_ = false;
  bool led_ = false;
  RequeueJob requeue_{config_.options, config_.environment};
  std::unique_ptr<Chronicle> chronicle_;  ///< from the first event on
  std::unique_ptr<LiveJob> live_;         ///< the same
  std::optional<rendezvous::Verdict> verdict_;
};

}  // namespace cxxrun::launcher
