// Hosting: what an agent does besides its own part: the coordinator, the stores, the log directories of the first
// generation, and the discovery file of a run that nodes may be added to.
//
// The agent of the first node hosts from the beginning. Every other one of a job with several nodes has a coordinator
// on standby, which does nothing until the agent campaigns (docs/design/election.md).
//
// Runs on the thread of the io_context given to it; `begin` may block while a name is resolved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/agent_config.hpp"
#include "rendezvous/net/server.hpp"

namespace cxxrun::os {
class BoundedThread;
}

namespace cxxrun::launcher {

class Hosting {
 public:
  /// `config` must outlive this.
  /// `standby`: listens already; none when nobody can take over from anybody.
  Hosting(boost::asio::io_context& io, AgentConfig const& config, int standby,
          rendezvous::CoordinatorHandlers handlers);
  ~Hosting();
  Hosting(Hosting const&) = delete;
  Hosting& operator=(Hosting const&) = delete;

  /// Listens when this agent is the one to host. Errors: not_found (the endpoint's name), in_use (its ports).
  Result<void> begin();
  /// Starts the clocks of the first generation.
  void open();
  /// Another agent coordinates, unless there is a coordinator here: gets ready to take over from it.
  void stand_by();
  /// Drops a coordinator that nobody has joined.
  void abandon();
  void start_campaign(rendezvous::Campaign campaign);
  /// Of this agent: Withdraw or Learned.
  void tell(rendezvous::Event event);
  /// This agent has a new incarnation, and so has its coordinator.
  void rename();
  /// This agent leads the job now: says so where agents that are added look.
  void lead();
  /// Whether the coordinator of the job is in this agent.
  [[nodiscard]] bool active() const { return coordinator_ && !closed_ && coordinator_->leads(); }
  /// Whether the coordinator has seen everybody off, or decides nothing.
  [[nodiscard]] bool done() const { return !active(); }
  /// Where the coordinator listens, when this agent hosts.
  [[nodiscard]] std::optional<std::uint16_t> port() const {
    return coordinator_ && hosts_ ? std::optional(port_) : std::nullopt;
  }

 private:
  [[nodiscard]] Result<bool> is_mine() const;
  void make_coordinator();
  void listen_for_followers();
  void begin_directories();
  void announce();

  boost::asio::io_context& io_;
  AgentConfig const& config_;
  int standby_;  ///< the agent's, which may outlive a coordinator
  rendezvous::CoordinatorHandlers handlers_;
  std::unique_ptr<os::BoundedThread> directories_;
  std::unique_ptr<os::BoundedThread> announcing_;
  std::string announced_;  ///< path of the discovery file, "" = none
  std::unique_ptr<store::StoreServer> stores_;
  std::unique_ptr<rendezvous::Coordinator> coordinator_;
  std::uint16_t port_ = 0;
  bool hosts_ = false;
  bool closed_ = false;
};

}  // namespace cxxrun::launcher
