// LiveNode: what an agent does for the live view of its job: it sends pulses to whoever coordinates, and passes on what
// programs on its node ask (cxxrunctl). Shell.
//
// Runs on the thread of the io_context given to it, and never blocks. Every question has an answer: whoever does not
// give one in time is named.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "launcher/agent/agent_config.hpp"
#include "launcher/agent/live_workers.hpp"
#include "launcher/life/agent_state.hpp"
#include "rendezvous/protocol/live_messages.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/timer.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

class LiveNode {
 public:
  /// To the coordinator. False: there is none.
  using Send = std::function<bool(rendezvous::LiveUp const&)>;
  /// All outlive it.
  LiveNode(boost::asio::io_context& io, AgentConfig const& config, agent::State const& state, Supervisor& supervisor,
           Send send);
  ~LiveNode();
  LiveNode(LiveNode const&) = delete;
  LiveNode& operator=(LiveNode const&) = delete;

  /// Pulses from now on. The first comes within a round, at an instant that `spread` chooses: not all at once.
  void begin(std::uint64_t spread);
  /// A program of this user on this node asks, and hears the answer on this connection (agent_packets.hpp).
  void asked(os::UniqueFd connection, std::string const& question);
  /// From whoever coordinates.
  void told(rendezvous::LiveDown message);

 private:
  class Asker;
  [[nodiscard]] LiveWorkers::Of workers_now() const;
  void send_pulse();
  void beat();
  void hear(rendezvous::Pace const& pace);
  void hear(rendezvous::Ask const& ask);
  void hear(rendezvous::Told const& told);
  void ask(std::shared_ptr<Asker> const& asker, std::string const& question, bool quick);
  void give_up(std::uint64_t id);

  boost::asio::io_context& io_;
  AgentConfig const& config_;
  agent::State const& state_;
  Send send_;
  LiveWorkers workers_;
  os::Timer timer_;
  Millis pace_ = rendezvous::Pace{}.every;
  TimePoint paced_;                                        // when that was told
  std::shared_ptr<int> askers_ = std::make_shared<int>();  // one more owner for each
  struct Waiting;
  std::map<std::uint64_t, std::unique_ptr<Waiting>> waiting_;  // for the coordinator, by the question's id
  std::uint64_t last_id_ = 0;
};

}  // namespace cxxrun::launcher
