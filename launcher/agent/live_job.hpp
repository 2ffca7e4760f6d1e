// LiveJob: the live view of a job, at its coordinator: keeps the table (live.hpp), answers questions, and sets the pace
// of the agents' pulses; says which ranks are slow. Shell.
//
// Runs on the thread of the io_context given to it, and never blocks. It changes the job only when a person wants that.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/live/live.hpp"
#include "launcher/live/question.hpp"
#include "rendezvous/membership/events.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/connection.hpp"
#include "rendezvous/values/history.hpp"
#include "rendezvous/values/progress.hpp"
#include "rendezvous/values/story.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/timer.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::launcher {

class LiveJob {
 public:
  /// Coordinator::tell.
  using Tell = std::function<void(rendezvous::AgentId, rendezvous::LiveDown const&)>;
  /// Coordinator::want.
  using Want = std::function<std::string(rendezvous::AgentId, rendezvous::Wanted)>;

  /// Coordinator::history.
  using Known = std::function<std::optional<rendezvous::History>(rendezvous::AgentId, rendezvous::StepTimes const&,
                                                                 std::optional<TimePoint> idle_until)>;
  /// Takes an event that the live view has found. It is to be passed to on_story_event(), like any other.
  using Happened = std::function<void(rendezvous::story::Event const&)>;

  LiveJob(boost::asio::io_context& io, live::Facts facts, Tell tell, Want want, Known known, Happened happened);
  ~LiveJob();
  LiveJob(LiveJob const&) = delete;
  LiveJob& operator=(LiveJob const&) = delete;

  /// `line`: the event as a line of events.jsonl.
  void on_story_event(rendezvous::story::Event const& event, std::string line);
  void on_message(rendezvous::AgentId agent, std::string const& host, rendezvous::LiveUp message);

 private:
  /// A question that was passed on to other agents.
  struct Inquiry {
    explicit Inquiry(boost::asio::io_context& io) : deadline(io) {}
    rendezvous::AgentId asker = 0;
    std::uint64_t asked_as = 0;  ///< id of the question at the asker
    std::set<rendezvous::AgentId> waits_for;
    Millis patience{0};  ///< with each part of the answer
    os::Timer deadline;
  };
  /// A question for events that are still to come.
  struct Follower {
    rendezvous::AgentId asker = 0;
    std::uint64_t asked_as = 0;  ///< id of the question at the asker
    std::uint64_t after = 0;     ///< the last event that it knows
  };
  /// The pace that an agent was told last, and when.
  struct TellPace {
    rendezvous::Pace pace;
    TimePoint at;
  };
  void on_pulse(rendezvous::AgentId agent, std::string const& host, rendezvous::NodePulse pulse);
  void on_question(rendezvous::AgentId agent, std::string const& host, rendezvous::Ask const& ask);
  void change(rendezvous::AgentId agent, std::string const& host, rendezvous::Ask const& ask,
              live::Question const& question);
  void on_answer(rendezvous::AgentId agent, rendezvous::Told told);
  void show(rendezvous::AgentId agent, std::uint64_t id);
  void answer(rendezvous::AgentId agent, std::uint64_t id, std::string const& text);
  void follow(Follower const& follower);
  void answer_followers();
  void on_status_asked();
  void set_pace();
  void tell_pace(rendezvous::AgentId agent, TellPace& told, TimePoint now);
  void inquire(rendezvous::AgentId asker, rendezvous::Ask const& ask, live::Question const& question);
  void give_up(std::uint64_t id);

  boost::asio::io_context& io_;
  live::Facts facts_;
  Tell tell_;
  Want want_;
  Known known_;
  Happened happened_;
  live::Live live_;
  os::Timer watch_timer_;
  bool is_watched_ = false;  ///< the status was asked for within kWatchedFor
  Millis pace_;
  std::map<rendezvous::AgentId, TellPace> paces_;
  std::map<std::uint64_t, std::unique_ptr<Inquiry>> inquiries_;
  std::uint64_t last_id_ = 0;
  std::vector<Follower> followers_;  ///< in the order in which they asked
  os::Timer follow_timer_;           ///< runs while there are followers
  bool gathers_ = false;             ///< something has happened, and they are about to be told
  TimePoint followers_answered_;
};

}  // namespace cxxrun::launcher
