// LiveJob: the live view of a job, at its coordinator: keeps the table (live.hpp), answers questions, and sets the pace
// of the agents' pulses; says which ranks are slow. Shell.
//
// Runs on the thread of the io_context given to it, and never blocks. It changes the job only when a person wants that.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/live/answers.hpp"
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

namespace cxxrun::launcher {

/// What a LiveJob asks of its coordinator: Hosting in an agent, RendezvousHost in cxxrun-rendezvous. The first three
/// are Coordinator's of the same name.
struct LiveJobInbox {
  virtual void tell(rendezvous::AgentId agent, rendezvous::LiveDown const& message) = 0;
  virtual std::string want(rendezvous::AgentId agent, rendezvous::Wanted wanted) = 0;
  [[nodiscard]] virtual std::optional<rendezvous::History> history(rendezvous::AgentId agent,
                                                                   rendezvous::StepTimes const& steps,
                                                                   std::optional<TimePoint> idle_until) const = 0;
  /// Takes an event that the live view has found, and passes it to LiveJob::on_story_event(), like any other.
  virtual void on_story_event(std::string const& run_id, rendezvous::story::Event const& event) = 0;
};

class LiveJob {
 public:
  /// `inbox` outlives it.
  LiveJob(boost::asio::io_context& io, live::Facts facts, LiveJobInbox& inbox);
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
    TimePoint asked;             ///< last: its agent asks again after each part of the answer
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
  void answer(rendezvous::AgentId agent, std::uint64_t id, std::string const& text, bool more = false);
  void follow(Follower const& follower);
  void tell_followers();
  void on_status_asked();
  void set_pace();
  void tell_pace(rendezvous::AgentId agent, TellPace& told, TimePoint now);
  void inquire(rendezvous::AgentId asker, rendezvous::Ask const& ask, live::Question const& question);
  void give_up(std::uint64_t id);

  boost::asio::io_context& io_;
  live::Facts facts_;
  LiveJobInbox& inbox_;
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
  TimePoint followers_told_;
};

}  // namespace cxxrun::launcher
