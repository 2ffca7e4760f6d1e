#include "launcher/agent/live_node.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <variant>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "launcher/agent/agent_links.hpp"
#include "launcher/live/answers.hpp"
#include "launcher/live/live.hpp"
#include "launcher/live/question.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/worker/agent_packets.hpp"

namespace cxxrun::launcher {
namespace {

using boost::asio::posix::stream_descriptor;

constexpr std::size_t kMaxWaiting = 32;
constexpr std::size_t kMaxAskers = 64;
constexpr Millis kQuickPatience{5000};
constexpr Millis kLongPatience{15'000};  // for questions that the coordinator passes to other agents
constexpr Millis kReadPatience{10'000};  // with a program that does not read its answer
constexpr Millis kSlowestPace{60'000};
constexpr Millis kPaceHolds{30'000};  // then the usual one again: the coordinator that set it may be gone

}  // namespace

// ---- a program that asks ----------------------------------------------------------------------------------------

/// Its connection. Lives until the whole answer is sent: packets that the kernel does not take at once wait here.
class LiveNode::Asker : public std::enable_shared_from_this<Asker> {
 public:
  Asker(boost::asio::io_context& io, os::UniqueFd connection, std::shared_ptr<int> one_of)
      : connection_(io, connection.release()), deadline_(io), one_of_(std::move(one_of)) {}

  /// False: the program has gone.
  bool say(std::string const& text, bool more) {
    live::say_in_parts(text, worker::kMostAnswered, more, [this](std::string part, bool another) {
      packets_.push_back(encode(worker::FromAgent(worker::Answer{another, std::move(part)})));
    });
    if (!waits_) {
      send();
    }
    return !gone_;
  }

 private:
  void send() {
    while (!packets_.empty()) {
      auto const& packet = packets_.front();
      auto const sent = os::send_packet(connection_.native_handle(), packet, -1, MSG_DONTWAIT);
      if (sent < 0 && errno == EAGAIN) {
        return wait();
      }
      if (sent < 0) {
        gone_ = true;
        packets_.clear();
        return;
      }
      packets_.pop_front();
    }
  }

  void wait() {
    waits_ = true;
    deadline_.after(kReadPatience, [weak = weak_from_this()] {
      if (auto const self = weak.lock()) {
        self->packets_.clear();
        boost::system::error_code ignored;
        self->connection_.close(ignored);
      }
    });
    connection_.async_wait(stream_descriptor::wait_write,
                           [self = shared_from_this()](boost::system::error_code const& error) {
                             self->waits_ = false;
                             self->deadline_.cancel();
                             if (!error) {
                               self->send();
                             }
                           });
  }

  stream_descriptor connection_;
  os::Timer deadline_;
  std::deque<std::string> packets_;
  bool waits_ = false;
  bool gone_ = false;
  std::shared_ptr<int> one_of_;
};

struct LiveNode::Waiting {
  explicit Waiting(boost::asio::io_context& io) : deadline(io) {}
  std::shared_ptr<Asker> asker;
  std::string again;  ///< the question, if the coordinator forgets it unless it is asked again
  Millis patience{0};
  os::Timer deadline;
};

// ---- pulses, questions and answers ------------------------------------------------------------------------------

LiveNode::LiveNode(boost::asio::io_context& io, AgentConfig const& config, agent::State const& state,
                   Supervisor& supervisor, HangGuard const& hangs, AgentLinks& links)
    : io_(io),
      config_(config),
      state_(state),
      links_(links),
      workers_(io, supervisor, hangs, config.environment),
      gpus_(supervisor, config.environment),
      timer_(io),
      look_timer_(io) {}

LiveNode::~LiveNode() = default;

void LiveNode::begin(std::uint64_t spread) {
  timer_.after(Millis(1 + spread % static_cast<std::uint64_t>(pace_.every.count())), [this] { beat(); });
  look();
}

/// All nodes look at the same instants: at whole multiples of the window, as far as their wall clocks agree.
void LiveNode::look() {
  auto const wall = std::chrono::duration_cast<Millis>(std::chrono::system_clock::now().time_since_epoch());
  workers_.look(running_workers(), wall);
  look_timer_.after(live::kWindow - wall % live::kWindow, [this] { look(); });
}

RunningWorkers LiveNode::running_workers() const {
  RunningWorkers running{0, 0, 0, config_.facts.host, config_.facts.log_root};
  if (state_.workers && !state_.check && state_.generation) {
    running.number = state_.generation->number;
    running.rank_base = state_.generation->rank_base;
    running.count = state_.generation->local_size;
  }
  return running;
}

/// To the coordinator. False: there is no connection to one.
bool LiveNode::send(rendezvous::LiveUp const& message) {
  return links_.tell(state_.follower.main, message);
}

void LiveNode::on_start(std::vector<WorkerSpec> const& workers) {
  gpus_.of_workers(list_of(workers, &WorkerSpec::gpu));
}

void LiveNode::send_pulse() {
  auto const running = running_workers();
  gpus_.look(pace_.gpus && running.number != 0);
  if (state_.joined) {
    (void)send(workers_.pulse(running, gpus_));
  }
}

void LiveNode::beat() {
  if (Clock::now() - paced_ > kPaceHolds) {
    pace_ = {};
  }
  send_pulse();
  timer_.after(pace_.every, [this] { beat(); });
}

void LiveNode::on_message(rendezvous::LiveDown const& message) {
  if (auto const* const pace = std::get_if<rendezvous::Pace>(&message)) {
    on_pace(*pace);
  } else if (auto const* const ask = std::get_if<rendezvous::Ask>(&message)) {
    on_coordinator_question(*ask);
  } else {
    on_coordinator_answer(std::get<rendezvous::Told>(message));
  }
}

void LiveNode::on_pace(rendezvous::Pace const& pace) {
  bool const sooner = pace.every < pace_.every || (pace.gpus && !pace_.gpus);
  pace_ = {std::clamp(pace.every, Millis{100}, kSlowestPace), pace.gpus};
  paced_ = Clock::now();
  if (sooner) {
    beat();
  }
}

void LiveNode::on_coordinator_question(rendezvous::Ask const& ask) {
  auto const reply = [this, id = ask.id](std::string const& text, bool more) {
    live::say_in_parts(text, rendezvous::kMaxTold, more, [&](std::string part, bool another) {
      (void)send(rendezvous::Told{id, std::move(part), another});
    });
  };
  auto const question = live::parse_question(ask.text);
  if (question) {
    workers_.answer(running_workers(), *question, reply);
  } else {
    reply(live::error_json("this agent does not know the question \"" + printable(ask.text) + "\""), false);
  }
}

void LiveNode::on_coordinator_answer(rendezvous::Told const& told) {
  auto const it = waiting_.find(told.id);
  if (it == waiting_.end()) {
    return;  // too late
  }
  auto& waiting = *it->second;
  bool const heard = waiting.asker->say(told.text, told.more);
  if (!told.more || !heard) {
    waiting_.erase(it);
    return;
  }
  waiting.deadline.after(waiting.patience, [this, id = told.id] { give_up(id); });
  if (!waiting.again.empty()) {
    (void)send(rendezvous::Ask{told.id, waiting.again});
  }
}

void LiveNode::on_question(os::UniqueFd connection, std::string const& question) {
  if (static_cast<std::size_t>(askers_.use_count()) > kMaxAskers) {
    return;  // so many programs do not read their answers
  }
  auto const asker = std::make_shared<Asker>(io_, std::move(connection), askers_);
  auto const parsed = live::parse_question(question);
  auto const what = parsed ? parsed->what : live::Question::What::status;
  if (what == live::Question::What::who) {
    asker->say(live::who_json(config_.facts.run_id, config_.topology.step, config_.facts.host), false);
  } else if (waiting_.size() >= kMaxWaiting) {
    asker->say(live::error_json(live::kTooManyQuestions), false);
  } else {
    ask_coordinator(asker, question, what);
  }
}

void LiveNode::ask_coordinator(std::shared_ptr<Asker> const& asker, std::string const& question,
                               live::Question::What what) {
  auto const id = ++last_id_;
  send_pulse();  // before the question: the answer then shows this node as it is now
  if (!state_.joined || !send(rendezvous::Ask{id, question})) {
    asker->say(live::error_json(state_.joined ? "no coordinator: an election is under way; try again in a few seconds"
                                              : "this node has not joined its job yet"),
               false);
    return;
  }
  auto waiting = std::make_unique<Waiting>(io_);
  waiting->asker = asker;
  waiting->again = what == live::Question::What::follow ? question : "";
  waiting->patience = is_passed_on(what) ? kLongPatience : kQuickPatience;
  waiting->deadline.after(waiting->patience, [this, id] { give_up(id); });
  waiting_.emplace(id, std::move(waiting));
}

void LiveNode::give_up(std::uint64_t id) {
  auto const waiting = std::move(waiting_.extract(id).mapped());
  waiting->asker->say(live::error_json("the coordinator has not answered within " + seconds_text(waiting->patience) +
                                       ": it is busy, or lost and about to be replaced"),
                      false);
}

}  // namespace cxxrun::launcher
