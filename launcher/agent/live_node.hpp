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

#include "launcher/live/question.hpp"
#include "rendezvous/protocol/live_messages.hpp"
#include "src/os/fd.hpp"
#include "src/os/timer.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

class LiveNode {
 public:
  struct Handlers {
    /// To the coordinator. False: nobody coordinates.
    std::function<bool(rendezvous::LiveUp const&)> send;
    std::function<rendezvous::NodePulse()> look;
    /// {"run_id": …}, one line of JSON.
    std::function<std::string()> who;
    /// Why `send` is of no use now, for people.
    std::function<std::string()> why_not;
    /// What only this node knows, asked by the coordinator. See LiveWorkers::answer.
    std::function<void(live::Question const&, std::function<void(std::string, bool)>)> answer;
  };
  LiveNode(boost::asio::io_context& io, Handlers handlers);
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
  void beat();
  void hear(rendezvous::Pace const& pace);
  void hear(rendezvous::Ask const& ask);
  void hear(rendezvous::Told const& told);
  void ask(std::shared_ptr<Asker> const& asker, std::string const& question);
  void give_up(std::uint64_t id);

  boost::asio::io_context& io_;
  Handlers handlers_;
  os::Timer timer_;
  Millis pace_ = rendezvous::Pace{}.every;
  TimePoint paced_;                                        // when that was told
  std::shared_ptr<int> askers_ = std::make_shared<int>();  // one more owner for each
  struct Waiting;
  std::map<std::uint64_t, std::unique_ptr<Waiting>> waiting_;  // for the coordinator, by the question's id
  std::uint64_t last_id_ = 0;
};

}  // namespace cxxrun::launcher
