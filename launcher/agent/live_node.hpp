// LiveNode: what an agent does for the live view of its job (docs/use/live.md). It sends pulses to the coordinator,
// passes on what programs on its node (cxxrunctl) ask, and answers for its own workers (live_workers.hpp). Shell.
//
// Runs on the thread of the io_context given to it, and does not block. Every question gets an answer; if an agent or
// coordinator does not answer in time, the answer says so.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/agent/agent_config.hpp"
#include "launcher/agent/gpu_watch.hpp"
#include "launcher/agent/live_workers.hpp"
#include "launcher/life/agent_state.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

class AgentLinks;
class HangGuard;
class Supervisor;

class LiveNode {
 public:
  /// All references outlive it.
  LiveNode(boost::asio::io_context& io, AgentConfig const& config, agent::State const& state, Supervisor& supervisor,
           HangGuard const& hangs, AgentLinks& links);
  ~LiveNode();
  LiveNode(LiveNode const&) = delete;
  LiveNode& operator=(LiveNode const&) = delete;

  /// Sends pulses from now on. `spread` chooses the instant of the first one within a round, so that the agents of a
  /// job do not send all at once.
  void begin(std::uint64_t spread);
  /// These workers run from now on.
  void on_start(std::vector<WorkerSpec> const& workers);
  /// A program of this user on this node asks. The answer goes to the same connection (agent_packets.hpp).
  void on_question(os::UniqueFd connection, std::string const& question);
  void on_message(rendezvous::LiveDown const& message);

 private:
  class Asker;
  struct Waiting;

  [[nodiscard]] RunningWorkers running_workers() const;
  bool send(rendezvous::LiveUp const& message);
  void send_pulse();
  void beat();
  void look();
  void on_pace(rendezvous::Pace const& pace);
  void on_coordinator_question(rendezvous::Ask const& ask);
  void on_coordinator_answer(rendezvous::Told const& told);
  void ask_coordinator(std::shared_ptr<Asker> const& asker, std::string const& question, live::Question::What what);
  void give_up(std::uint64_t id);

  boost::asio::io_context& io_;
  AgentConfig const& config_;
  agent::State const& state_;
  AgentLinks& links_;
  LiveWorkers workers_;
  GpuWatch gpus_;
  os::Timer timer_;
  os::Timer look_timer_;
  rendezvous::Pace pace_;
  TimePoint paced_;                                            ///< when the coordinator set `pace_`
  std::shared_ptr<int> askers_ = std::make_shared<int>();      ///< its use count is the number of askers, plus one
  std::map<std::uint64_t, std::unique_ptr<Waiting>> waiting_;  ///< askers that wait for the coordinator, by question id
  std::uint64_t last_id_ = 0;
};

}  // namespace cxxrun::launcher
