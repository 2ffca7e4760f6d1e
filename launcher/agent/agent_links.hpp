// AgentLinks: the connections of one agent, to the coordinator and to the agents that may take over from it. Shell.
//
// Runs on the thread of the io_context given to it. Turns what happens on a connection into the agent's events; whom to
// call and whom to obey is decided by agent::step() (launcher/life).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "launcher/agent/agent_config.hpp"
#include "launcher/life/agent_state.hpp"
#include "rendezvous/net/coordinator_link.hpp"
#include "rendezvous/net/key_ring.hpp"

namespace cxxrun::os {
class SharedPage;
}

namespace cxxrun::launcher {

/// The keys by which this agent proves itself; null with --auth none.
[[nodiscard]] std::shared_ptr<rendezvous::KeyRing> make_keys(boost::asio::io_context& io, AgentConfig const& config);

/// What an agent hears of its connections: the events of every link, and what joining (joining.hpp) comes to.
struct AgentLinksInbox : agent::Inbox {
  /// A coordinator has let this agent in. The LinkUp follows.
  virtual void on_joined(rendezvous::HelloReply const& reply) = 0;
  virtual void on_live_message(agent::LinkId link, rendezvous::LiveDown message) = 0;
  /// This agent cannot take part.
  virtual void on_joining_failed(Error error) = 0;
};

class AgentLinks {
 public:
  using Failed = std::function<void(Error const&)>;
  /// `keys`: how both ends of a connection prove themselves; null with --auth none. `inbox` outlives it, may destroy
  /// links when it is called, and is never called from within a call to this class.
  AgentLinks(boost::asio::io_context& io, std::shared_ptr<rendezvous::KeyRing> keys, AgentLinksInbox& inbox);
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
  AgentLinksInbox& inbox_;
  rendezvous::CallPlan plan_;        ///< of the last call to join
  rendezvous::Successor joined_at_;  ///< address of the coordinator that was joined last; port 0: none yet
  std::map<agent::LinkId, std::unique_ptr<Link>> links_;
};

}  // namespace cxxrun::launcher
