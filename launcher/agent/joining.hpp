// Joining: how an agent gets into its run, and into it again after the coordinator has dropped it. Shell.
//
// It calls the coordinator that a discovery file names, or else meets the other agents where the options say: one of
// them hosts the coordinator (hosting.hpp), the others call it. The discovery file is read again in two cases:
//   - with --join, every second: the coordinator that it names may be lost, or be replaced at this moment. The search
//     ends when a coordinator lets the agent in, when its time is over, or at a coordinator of another version.
//   - at a meeting place, ever more rarely: a coordinator that found all its ports taken writes another one there.
//
// Runs on the thread of the io_context given to it. Blocks while a name is resolved, and with --join up to
// kDirectoryPatience while the file is read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/agent/agent_links.hpp"
#include "rendezvous/net/probing.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

class Hosting;

class Joining {
 public:
  /// All references outlive it. `config`: its `topology.discovered` follows the file. `keys`: null with --auth none.
  Joining(boost::asio::io_context& io, AgentConfig& config, Hosting& hosting, AgentLinks& links,
          std::shared_ptr<rendezvous::KeyRing> keys, AgentLinksInbox& inbox);

  /// Hosts or calls; a LinkUp of kFirstLink follows, or on_joining_failed(), possibly at once.
  void begin();
  /// A coordinator has let the agent in: ends the search.
  void stop();
  /// Calls as a new member, with a new incarnation. A LinkUp or LinkFailed follows. `was_member`: it has been in a
  /// generation.
  void rejoin(agent::Rejoin const& action, bool was_member);
  /// After on_joining_failed(): the other nodes of the step wait, too, at an address where no coordinator can be.
  [[nodiscard]] bool others_wait() const { return others_wait_; }

 private:
  using Plan = std::function<rendezvous::CallPlan()>;

  void call_discovered();
  void meet();
  void ask_first_node();
  bool retry_name_server();
  void on_meeting_failed(Error const& error);
  void search(agent::LinkId link, Plan plan, std::string why, AgentLinks::Failed failed);
  void look_for_coordinator();
  void read_discovery_again();
  void call_found();
  void end_search();
  void look_for_port();

  boost::asio::io_context& io_;
  AgentConfig& config_;
  Hosting& hosting_;
  AgentLinks& links_;
  std::shared_ptr<rendezvous::KeyRing> keys_;
  AgentLinksInbox& inbox_;

  os::Timer resolver_timer_;
  std::optional<TimePoint> retry_until_;  ///< while no name server answers
  bool others_wait_ = false;
  bool asked_first_node_ = false;

  // The search with --join.
  os::Timer search_timer_;
  agent::LinkId link_ = agent::kFirstLink;
  Plan plan_;  ///< makes the plan from `config_` as it is now
  AgentLinks::Failed search_failed_;
  std::optional<Error> last_error_;
  bool is_calling_ = false;
  bool said_waiting_ = false;

  // The port of a coordinator that found all its ports taken.
  os::Timer port_timer_;
  std::string port_file_;  ///< "": not looked for
  Millis port_pause_{0};
};

}  // namespace cxxrun::launcher
