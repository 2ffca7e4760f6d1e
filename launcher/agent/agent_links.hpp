// AgentLinks: the connections of one agent, to the coordinator and to the agents that may take over from it. Shell.
//
// Runs on the thread of the io_context given to it. Turns what happens on a connection into the agent's events; whom to
// call and whom to obey is decided by agent::step() (launcher/life).
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "launcher/agent/agent_config.hpp"
#include "launcher/life/agent_state.hpp"
#include "launcher/workers/supervisor.hpp"
#include "rendezvous/net/coordinator_link.hpp"
#include "rendezvous/net/key_ring.hpp"

namespace cxxrun::os {
class SharedPage;
}

namespace cxxrun::launcher {

/// The keys by which this agent proves itself; null with --auth none.
[[nodiscard]] std::shared_ptr<rendezvous::KeyRing> make_keys(boost::asio::io_context& io, AgentConfig const& config);

/// Vouches for the connections between this agent's workers and ranks of other nodes; empty with --auth none. `config`
/// outlives it.
[[nodiscard]] SupervisorHandlers::Prove make_witness(std::shared_ptr<rendezvous::KeyRing> keys,
                                                     AgentConfig const& config);

class AgentLinks {
 public:
  using Failed = std::function<void(Error const&)>;
  using Joined = std::function<void(rendezvous::HelloReply const&)>;
  using Live = std::function<void(agent::LinkId, rendezvous::LiveDown)>;

  /// `keys`: how both ends of a connection prove themselves; null with --auth none. `feed` takes the events of every
  /// link; it may destroy links, and is never called from within a call to this class. `joined` runs before the LinkUp
  /// of a call to join.
  AgentLinks(boost::asio::io_context& io, std::shared_ptr<rendezvous::KeyRing> keys,
             std::function<void(agent::Event)> feed, Joined joined, Live live);
  ~AgentLinks();
  AgentLinks(AgentLinks const&) = delete;
  AgentLinks& operator=(AgentLinks const&) = delete;

  /// Calls a coordinator to join its run. On failure `failed` is called, and no LinkFailed comes.
  void join(agent::LinkId link, rendezvous::CallPlan plan, Failed failed);
  /// The call to join that is under way tries this port, too.
  void try_also(agent::LinkId link, std::uint16_t port);
  /// Calls an agent to follow it, with the incarnation that has joined last.
  void dial(agent::Dial const& action);
  void hang_up(agent::LinkId link);
  void tell(agent::LinkId link, rendezvous::ToCoordinator message);
  /// False: there is no connection.
  bool tell(agent::LinkId link, rendezvous::LiveUp const& message);
  void beat(agent::TellBeat const& action);
  void hang_up_all();
  /// Leaves the death notice in the page that the parent process reads.
  void write_death_notice(os::SharedPage& page, agent::WriteDeathNotice const& action) const;

 private:
  struct Link;
  void call(agent::LinkId link, rendezvous::CallPlan plan, Failed failed = {});

  boost::asio::io_context& io_;
  std::shared_ptr<rendezvous::KeyRing> keys_;
  std::function<void(agent::Event)> feed_;
  Joined joined_;
  Live live_;
  rendezvous::CallPlan plan_;        ///< of the last call to join
  rendezvous::Successor joined_at_;  ///< address of the coordinator that was joined last; port 0: none yet
  std::map<agent::LinkId, std::unique_ptr<Link>> links_;
};

}  // namespace cxxrun::launcher
