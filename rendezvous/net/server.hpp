// Coordinator: listens, greets agents, and brings each to the run it belongs to.
//
// An agent has one too when it coordinates nothing: its run is then on standby, known to those who look for somebody to
// follow, and leads once the agent was elected (docs/design/election.md).
//
// Runs on the thread of the io_context given to it. It decides nothing: run_table.hpp says who belongs where,
// membership.hpp (behind run.hpp) what a run does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/membership/campaign.hpp"
#include "rendezvous/net/key_ring.hpp"
#include "rendezvous/net/port_plan.hpp"
#include "rendezvous/protocol/live_messages.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/agent_id.hpp"
#include "rendezvous/values/story.hpp"
#include "rendezvous/values/verdict.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/store/store_server.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

struct CoordinatorConfig {
  std::string nonce;  ///< tells this coordinator from every other
  bool loopback_only = false;
  bool serves_all = false;  ///< agents open runs, several if need be; false: the one run of `open_run`
  std::string only_id;      ///< with serves_all: of this run id alone; "" = any
  PortRange store_ports;
  std::string fence_dir;               ///< --fence; "" = none
  std::shared_ptr<KeyRing> keys;       ///< none: --auth none, whoever calls is let in
  std::vector<NodeFault> node_faults;  ///< of earlier runs of the job
  bool oom_kills_step = false;         ///< see Policy
  std::vector<std::string> outer;      ///< addresses as which others see it, beside its own: where they are translated
};

struct CoordinatorHandlers {
  std::function<void(std::string const& run_id, Verdict const&)> concluded;  ///< once per run
  std::function<void()> closed;  ///< once per run, after `concluded`: nobody of it is left
  /// Not after `concluded`; may be empty.
  std::function<void(std::string const& run_id, story::Event const&)> happened;
  /// The run of this agent decides nothing any more, or its campaign came to nothing; it is on standby again. May be
  /// empty.
  std::function<void(SteppedDown const&)> stepped_down;
  /// An agent's pulses, questions and answers; may be empty.
  std::function<void(std::string const& run_id, AgentId, std::string const& host, LiveUp)> live;
};

class Coordinator {
 public:
  Coordinator(boost::asio::io_context& io, store::StoreServer& stores, CoordinatorConfig config,
              CoordinatorHandlers handlers);
  ~Coordinator();
  Coordinator(Coordinator const&) = delete;
  Coordinator& operator=(Coordinator const&) = delete;

  /// Listens on the first of `ports` that is free (0: any) and returns it. Errors: in_use naming the ports.
  Result<std::uint16_t> listen(std::vector<std::uint16_t> const& ports);
  /// Opens a run before anybody has called, and starts its clocks. `step`: its other name (run_table.hpp).
  void open_run(std::string const& run_id, Terms const& terms, std::string const& step = "");
  /// Instead of open_run: whoever calls for this step is told why there is no run.
  void refuse_all(std::string const& step, int exit_code, std::string const& why);
  /// How many have been turned away.
  [[nodiscard]] std::size_t turned_away() const;
  /// Takes calls on this socket too, which is bound already; any number of them. Errors: io.
  Result<void> listen_also(os::UniqueFd socket);
  /// Opens the run that another agent coordinates, in case this one has to take over. Instead of open_run.
  void standby(std::string const& run_id, Terms const& terms);
  /// The run campaigns, or again with a higher ballot.
  void start_campaign(Campaign campaign);
  /// What its own agent has to say to it.
  void tell(std::variant<Withdraw, Learned> news);
  /// To an agent that `live` has told of; dropped when it is gone.
  void tell(AgentId agent, LiveDown const& message);
  /// This agent has become somebody else: agents recognise its coordinator by its incarnation.
  void rename(std::string nonce);
  /// Whether the run of this agent decides: it was opened here, or elected, and has not stepped down.
  [[nodiscard]] bool leads() const;
  /// Ends every run, as when its user had told it to end with `signal`; `closed` follows for each.
  void quit(int signal);
  /// Whether no run is left.
  [[nodiscard]] bool idle() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::rendezvous
