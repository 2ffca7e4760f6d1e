// Hosting: what the agent of the first node does besides its own part: the coordinator, the stores, the log directories
// of the first generation, and the discovery file of a run that nodes may be added to. Does nothing on any other node.
//
// Runs on the thread of the io_context given to it; `begin` may block while a name is resolved.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent.hpp"
#include "rendezvous/server.hpp"

namespace cxxrun::os {
class BoundedThread;
}

namespace cxxrun::launcher {

class Hosting {
 public:
  /// `config` must outlive this.
  Hosting(boost::asio::io_context& io, AgentConfig const& config, rendezvous::CoordinatorHandlers handlers);
  ~Hosting();
  Hosting(Hosting const&) = delete;
  Hosting& operator=(Hosting const&) = delete;

  /// Listens when this agent is the one to host. Errors: not_found (the endpoint's name), in_use (its ports).
  Result<void> begin();
  /// Starts the clocks of the first generation.
  void open();
  /// Drops a coordinator that nobody has joined.
  void abandon();
  /// Whether this agent hosts.
  [[nodiscard]] bool active() const { return coordinator_ != nullptr; }
  /// Whether the coordinator has seen everybody off, or there is none.
  [[nodiscard]] bool done() const { return !coordinator_ || closed_; }
  /// Where the coordinator listens, when there is one here.
  [[nodiscard]] std::optional<std::uint16_t> port() const { return coordinator_ ? std::optional(port_) : std::nullopt; }

 private:
  [[nodiscard]] Result<bool> is_mine() const;
  void begin_directories();
  void announce();

  boost::asio::io_context& io_;
  AgentConfig const& config_;
  rendezvous::CoordinatorHandlers handlers_;
  std::unique_ptr<os::BoundedThread> directories_;
  std::unique_ptr<os::BoundedThread> announcing_;
  std::string announced_;  ///< path of the discovery file, "" = none
  std::unique_ptr<store::StoreServer> stores_;
  std::unique_ptr<rendezvous::Coordinator> coordinator_;
  std::uint16_t port_ = 0;
  bool closed_ = false;
};

}  // namespace cxxrun::launcher
