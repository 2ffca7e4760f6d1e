// Joining: how an agent that was added with --join finds the coordinator. The one that the discovery file names may be
// lost, or be replaced at this moment: the file is read again each second, until somebody lets the agent in or its time
// is over. What it finds there is not the end, but for a coordinator of another version. Shell.
//
// Runs on the thread of the io_context given to it, which waits for the directory, within kDirectoryPatience.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/agent_links.hpp"
#include "rendezvous/net/call_plan.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

class Joining {
 public:
  /// By what is in `config` now.
  using Plan = std::function<rendezvous::CallPlan()>;

  /// `config`: its `topology.discovered` follows the file. All outlive this. `keys`: of --auth none there are none.
  Joining(boost::asio::io_context& io, AgentConfig& config, AgentLinks& links,
          std::shared_ptr<rendezvous::KeyRing> keys);

  /// Calls whom the file named last, at once; `failed` once at `config.join_until`, or before when it is of no use.
  void begin(agent::LinkId link, Plan plan, AgentLinks::Failed failed);
  /// The same for an agent that was let in, or had a call come to nothing: after another look at the file. `why`: that
  /// is what has happened.
  void again(agent::LinkId link, Plan plan, std::string why, AgentLinks::Failed failed);
  /// Somebody has let the agent in.
  void stop() { timer_.cancel(); }

 private:
  void look();
  void read_again();
  void call();
  void end();

  AgentConfig& config_;
  AgentLinks& links_;
  std::shared_ptr<rendezvous::KeyRing> keys_;
  os::Timer timer_;
  agent::LinkId link_ = agent::kFirstLink;
  Plan plan_;
  AgentLinks::Failed failed_;
  std::optional<Error> trouble_;  ///< with the last call
  bool calls_ = false;
  bool told_ = false;
};

}  // namespace cxxrun::launcher
