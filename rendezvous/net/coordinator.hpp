// Coordinator: listens, answers hellos, and connects each agent with the run that it belongs to. Shell.
//
// An agent that coordinates nothing has one, too: its run is on standby, answers agents that look for a new
// coordinator, and leads once this agent is elected (docs/design/election.md).
//
// Runs on the thread of the io_context given to it. The decisions are in run_table.hpp (which run) and in
// membership.hpp, behind run.hpp (what the run does).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/membership/campaign.hpp"
#include "rendezvous/membership/events.hpp"
#include "rendezvous/net/key_ring.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/connection.hpp"
#include "rendezvous/values/history.hpp"
#include "rendezvous/values/progress.hpp"
#include "rendezvous/values/story.hpp"
#include "rendezvous/values/verdict.hpp"
#include "src/base/core/ports.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/store/store_server.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

struct CoordinatorConfig {
  std::string nonce;  ///< identifies this coordinator
  bool loopback_only = false;
  bool serves_all = false;  ///< agents open runs, several at once; false: only the run of `open_run`
  std::string only_id;      ///< with serves_all: the only run id that is served; "" = any
  PortRange store_ports;
  std::string fence_dir;               ///< --fence; "" = none
  std::shared_ptr<KeyRing> keys;       ///< null: --auth none, every caller is let in
  std::vector<NodeFault> node_faults;  ///< of earlier runs of the job
  bool oom_kills_step = false;         ///< see Policy
  std::vector<std::string> outer;      ///< addresses at which others see it if they are translated
};

/// Where the events of a Coordinator go: to Hosting in an agent, to RendezvousHost in cxxrun-rendezvous.
struct CoordinatorInbox {
  virtual void on_concluded(std::string const& run_id, Verdict const& verdict) = 0;  ///< once per run
  virtual void on_run_closed() = 0;  ///< once per run, after `on_concluded`: its last agent is gone
  /// Never after `on_concluded`.
  virtual void on_story_event(std::string const& /*run_id*/, story::Event const& /*event*/) {}
  /// The run of this agent has stopped deciding, or its campaign failed; it is on standby again.
  virtual void on_stepped_down(SteppedDown const& /*action*/) {}
  /// An agent's pulses, questions and answers.
  virtual void on_live(std::string const& /*run_id*/, AgentId /*agent*/, std::string const& /*host*/,
                       LiveUp&& /*message*/) {}
};

class Coordinator {
 public:
  /// `inbox` outlives it.
  Coordinator(boost::asio::io_context& io, store::StoreServer& stores, CoordinatorConfig config,
              CoordinatorInbox& inbox);
  ~Coordinator();
  Coordinator(Coordinator const&) = delete;
  Coordinator& operator=(Coordinator const&) = delete;

  /// Listens on the first of `ports` that is free (0: any) and returns it. Errors: in_use, naming the ports.
  Result<std::uint16_t> listen(std::vector<std::uint16_t> const& ports);
  /// Opens a run and starts its timers, before any agent calls. `step`: its other name (run_table.hpp).
  void open_run(std::string const& run_id, Terms const& terms, std::string const& step = "");
  /// Instead of open_run: tells every agent of this step why there is no run.
  void refuse_all(std::string const& step, int exit_code, std::string const& why);
  /// The number of agents that were turned away.
  [[nodiscard]] std::size_t turned_away() const;
  /// Listens on this bound socket, too. May be called several times. Errors: io.
  Result<void> listen_also(os::UniqueFd socket);
  /// Instead of open_run: opens a run that another agent coordinates, in case this one has to take over.
  void standby(std::string const& run_id, Terms const& terms);
  /// Starts a campaign of the run on standby, or continues it with a higher ballot.
  void start_campaign(Campaign campaign);
  /// News from its own agent.
  void tell(std::variant<Withdraw, Learned> news);
  /// Sends to an agent known from `on_live`; dropped if that is gone.
  void tell(AgentId agent, LiveDown const& message);
  /// A person wants it of the run of this agent, which is known from `on_live`. Returns why nothing is done; "": it is.
  std::string want(AgentId agent, Wanted wanted);
  /// The history of the run of this agent, which is known from `on_live`: so_far() (history/ledger.hpp).
  [[nodiscard]] std::optional<History> history(AgentId agent, StepTimes const& steps,
                                               std::optional<TimePoint> idle_until) const;
  /// This agent has a new incarnation, by which others recognise its coordinator.
  void rename(std::string nonce);
  /// Whether the run of this agent decides: opened here or elected, and not stepped down.
  [[nodiscard]] bool leads() const;
  /// Ends every run as if its user had sent `signal`; `on_run_closed` follows for each.
  void quit(int signal);
  /// Whether there is no run any more.
  [[nodiscard]] bool idle() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::rendezvous
