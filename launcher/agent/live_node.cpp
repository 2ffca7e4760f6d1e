#include "launcher/agent/live_node.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <limits>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <variant>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "launcher/hangs/hang_guard.hpp"
#include "launcher/hangs/hang_text.hpp"
#include "launcher/hangs/python_stack.hpp"
#include "launcher/live/live.hpp"
#include "launcher/live/question.hpp"
#include "launcher/logs/log_names.hpp"
#include "launcher/logs/log_tail.hpp"
#include "launcher/workers/supervisor.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/run_blocking.hpp"
#include "src/base/worker/agent_packets.hpp"
#include "src/base/worker/page_view.hpp"

namespace cxxrun::launcher {
namespace {

using boost::asio::posix::stream_descriptor;
using live::Figure;

constexpr std::size_t kMaxWaiting = 32;
constexpr std::size_t kMaxAskers = 64;
constexpr Millis kQuickPatience{5000};
constexpr Millis kLongPatience{15'000};  // for questions that the coordinator passes to other agents
constexpr Millis kReadPatience{10'000};  // with a program that does not read its answer
constexpr Millis kSlowestPace{60'000};
constexpr Millis kPaceHolds{30'000};       // then the usual one again: the coordinator that set it may be gone
constexpr std::size_t kShownFrames = 100;  // faulthandler writes no more
constexpr Millis kTailPatience{3000};
constexpr Millis kLeastSpan{500};  // of processor time, which the kernel counts in hundredths of a second

std::int64_t as_figure(std::uint64_t number) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(number, std::numeric_limits<std::int64_t>::max()));
}

/// What slow.hpp judges by.
void read_lateness(worker::ControlPage const& page, live::Row& row) {
  auto const word = [](auto const& each) {
    return as_figure(static_cast<std::uint64_t>(each.load(std::memory_order_acquire)));
  };
  of(row, Figure::inside) = word(page.inside) / 1000;
  of(row, Figure::sample) = word(page.ddp_sample);
  of(row, Figure::forward) = word(page.ddp_forward) / 1000;
  of(row, Figure::backward) = word(page.ddp_backward) / 1000;
  of(row, Figure::reducing) = word(page.ddp_reducing) / 1000;
  of(row, Figure::looks) = word(page.looks);
  of(row, Figure::looked_begun) = word(page.looked_begun);
  of(row, Figure::looked_at) = word(page.looked_at);
  of(row, Figure::fed) = word(page.fed) / 1000;
  if (word(page.looks) != of(row, Figure::looks)) {
    of(row, Figure::looks) = 0;  // it was being written
  }
}

void read_page(worker::ControlPage const& page, live::Row& row, TimePoint now) {
  auto const figures = worker::read_figures(page);
  of(row, Figure::step) = as_figure(page.step.load(std::memory_order_relaxed));
  of(row, Figure::begun) = as_figure(worker::begun_in_all(figures.entered, figures.groups));
  // Of a program that has begun none, the page says that it may wait elsewhere.
  bool const may_wait = of(row, Figure::begun) > 0 && !figures.idle;
  of(row, Figure::waits) = may_wait && (figures.entered > figures.done || figures.elsewhere) ? 1 : 0;
  auto const first = page.first_step.load(std::memory_order_relaxed);
  auto const last = page.last_step.load(std::memory_order_relaxed);
  if (first > 0 && last > 0) {
    TimePoint const at{std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(last))};
    of(row, Figure::step_ago) = std::max<std::int64_t>(0, std::chrono::duration_cast<Millis>(now - at).count());
  }
}

/// The age of what the newer one of two checkpoints holds: that of `known`, and that of this worker.
std::optional<Millis> newer(std::optional<Millis> known, worker::ControlPage const& page, TimePoint now) {
  auto const saved = page.saved.load(std::memory_order_relaxed);
  if (saved <= 0) {
    return known;
  }
  TimePoint const of{std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(saved))};
  auto const age = std::max(std::chrono::duration_cast<Millis>(now - of), Millis{0});
  return std::min(known.value_or(age), age);
}

}  // namespace

/// The workers of this node that run now.
struct LiveNode::Running {
  std::uint64_t number = 0;  ///< of their generation; 0: none run
  std::uint32_t rank_base = 0;
  std::uint32_t count = 0;
  std::string host;
  std::string log_root;  ///< "" = no files
};

// ---- what is known of this node's workers -----------------------------------------------------------------------

class LiveNode::Workers {
 public:
  Workers(boost::asio::io_context& io, Supervisor& supervisor, HangGuard const& hangs)
      : io_(io), supervisor_(supervisor), hangs_(hangs) {}

  [[nodiscard]] rendezvous::NodePulse pulse(Running const& running) {
    rendezvous::NodePulse pulse{running.number, running.rank_base, static_cast<std::uint32_t>(live::kFigures), {}};
    auto const now = Clock::now();
    for (std::uint32_t i = 0; running.number != 0 && i < running.count; ++i) {
      auto row = row_of(i, now);
      if (looked_in_ == running.number) {
        constexpr auto kFirst = static_cast<std::ptrdiff_t>(Figure::at);
        std::copy(looked_[i].begin() + kFirst, looked_[i].end(), row.begin() + kFirst);
      }
      pulse.figures.insert(pulse.figures.end(), row.begin(), row.end());
      if (auto const* const page = supervisor_.page(i)) {
        pulse.saved = newer(pulse.saved, *page, now);
      }
    }
    if (running.number != 0) {
      pulse.steps = ago(hangs_.steps(running.number), now);
    }
    return pulse;
  }

  /// Reads what the next pulses say of how late each worker is. `at`: by the wall clock.
  void look(Running const& running, Millis at) {
    looked_in_ = running.number;
    looked_.assign(running.count, live::Row{});
    for (std::uint32_t i = 0; i < running.count; ++i) {
      of(looked_[i], Figure::at) = at.count();
      if (auto const* const page = supervisor_.page(i)) {
        read_lateness(*page, looked_[i]);
      }
    }
  }

  /// `part` gets lines of JSON at least once, from inside this call or later; `more` is false the last time.
  using Part = std::function<void(std::string text, bool more)>;

  void answer(Running const& running, live::Question const& question, Part const& part) {
    std::vector<std::uint32_t> local_ranks;
    for (std::uint32_t i = 0; running.number != 0 && i < running.count; ++i) {
      auto const& ranks = question.ranks;
      if (ranks.empty() || std::find(ranks.begin(), ranks.end(), running.rank_base + i) != ranks.end()) {
        local_ranks.push_back(i);
      }
    }
    if (local_ranks.empty()) {
      part(live::error_json("no worker runs on " + running.host + " now"), false);
    } else if (question.what == live::Question::What::checkpoint) {
      auto const asked = running.number == question.number ? supervisor_.ask_for_checkpoint() : 0;
      part(live::asked_json(running.host, asked, local_ranks.size()), false);
    } else if (question.what == live::Question::What::stacks) {
      take_stacks(running, local_ranks, part);
    } else {
      read_tails(running, local_ranks.front(), question, part);
    }
  }

 private:
  /// Processor time of a worker's program when it was last read.
  struct Used {
    pid_t pid = 0;
    std::uint64_t ticks = 0;
    TimePoint at;
    std::int64_t permille = 0;  ///< in the span before that
  };

  /// 0: it has ended.
  [[nodiscard]] pid_t program_of(std::uint32_t local_rank) const {
    return supervisor_.pid_of(local_rank) > 0 ? supervisor_.program_of(local_rank) : 0;
  }

  live::Row row_of(std::uint32_t local_rank, TimePoint now) {
    live::Row row{};
    of(row, Figure::step_ago) = -1;
    if (auto const* const page = supervisor_.page(local_rank)) {
      read_page(*page, row, now);
    }
    pid_t const pid = program_of(local_rank);
    auto const usage = pid > 0 ? os::read_usage(pid) : std::nullopt;
    if (!usage) {
      of(row, Figure::state) = 'E';
      return row;
    }
    of(row, Figure::state) = static_cast<unsigned char>(usage->state);
    of(row, Figure::memory) = as_figure(os::mib_of_pages(usage->pages));
    auto& used = used_[local_rank];
    auto const passed = std::chrono::duration_cast<Millis>(now - used.at).count();
    bool const same = used.pid == pid && usage->ticks >= used.ticks;
    if (same && passed >= kLeastSpan.count()) {
      auto const ms = os::ms_of_ticks(usage->ticks - used.ticks);
      used = {pid, usage->ticks, now, as_figure(ms * 1000 / static_cast<std::uint64_t>(passed))};
    } else if (!same) {
      used = {pid, usage->ticks, now, 0};
    }
    of(row, Figure::processor) = used.permille;
    return row;
  }

  /// A stopped worker is not asked: it would have to run to answer, and its lease may have expired.
  void take_stacks(Running const& running, std::vector<std::uint32_t> const& local_ranks, Part const& part) {
    auto const left = std::make_shared<std::size_t>(local_ranks.size());
    for (auto const local_rank : local_ranks) {
      auto const say = [left, part, host = running.host, rank = running.rank_base + local_rank](
                           std::vector<std::string> const& frames, std::string const& place) {
        part(live::stack_json(rank, host, frames, place), --*left > 0);
      };
      pid_t const pid = program_of(local_rank);
      auto const stat = pid > 0 ? os::read_stat(pid) : std::nullopt;
      if (!stat) {
        say({}, "it has ended");
      } else if (stat->state == 'T') {
        say({}, os::describe_stuck(pid));
      } else {
        ask_python(io_, pid, [say, pid](PythonAnswer const& python) {
          auto const frames = python_frames(python.written, kShownFrames);
          say(frames, frames.empty() ? os::describe_stuck(pid) : "");
        });
      }
    }
  }

  void read_tails(Running const& running, std::uint32_t local_rank, live::Question const& question, Part const& part) {
    auto const dir_of = [&](std::uint64_t generation) {
      return running.log_root.empty() ? "" : worker_log_dir(running.log_root, generation, local_rank);
    };
    auto const dir = dir_of(running.number);
    bool const in_older =
        question.place && question.place->generation != 0 && question.place->generation != running.number;
    auto const older = in_older ? dir_of(question.place->generation) : "";
    auto const rank = running.rank_base + local_rank;
    auto const most = std::min(question.number, live::kMostTail);
    os::run_blocking<std::string>(
        io_, "cxxrun-tail", kTailPatience,
        [dir, older, rank, most, since = question.place, number = running.number, host = running.host] {
          auto tails = dir.empty() ? LogTails()
                       : since     ? read_log_since(dir, older, *since, most, false)
                                   : read_log_ends(dir, most);
          tails.place.generation = number;
          auto const place = since ? place_text(tails.place) : "";
          std::string text;
          for (auto& each : tails.streams) {
            text += live::tail_json(rank, host, {std::move(each.file), std::move(each.text), each.left_out, place});
          }
          return text.empty()
                     ? live::error_json("rank " + std::to_string(rank) + " on " + host +
                                        " writes only to the console: --log-dir DIR --tee 3 keeps its output in files")
                     : text;
        },
        live::error_json("the file system of " + dir + " on " + running.host + " does not answer"),
        [part](std::string const& text) { part(text, false); });
  }

  boost::asio::io_context& io_;
  Supervisor& supervisor_;
  HangGuard const& hangs_;
  std::map<std::uint32_t, Used> used_;  ///< by local rank
  std::vector<live::Row> looked_;       ///< by local rank, of the generation `looked_in_`
  std::uint64_t looked_in_ = 0;
};

// ---- a program that asks ----------------------------------------------------------------------------------------

/// Its connection. Lives until the whole answer is sent: packets that the kernel does not take at once wait here.
class LiveNode::Asker : public std::enable_shared_from_this<Asker> {
 public:
  Asker(boost::asio::io_context& io, os::UniqueFd connection, std::shared_ptr<int> one_of)
      : connection_(io, connection.release()), deadline_(io), one_of_(std::move(one_of)) {}

  void say(std::string const& text, bool more) {
    live::say_in_parts(text, worker::kMostAnswered, more, [this](std::string part, bool another) {
      packets_.push_back(encode(worker::FromAgent(worker::Answer{another, std::move(part)})));
    });
    if (!waits_) {
      send();
    }
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
        packets_.clear();  // the program has gone
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
  std::shared_ptr<int> one_of_;
};

struct LiveNode::Waiting {
  explicit Waiting(boost::asio::io_context& io) : deadline(io) {}
  std::shared_ptr<Asker> asker;
  Millis patience{0};
  os::Timer deadline;
};

// ---- pulses, questions and answers ------------------------------------------------------------------------------

LiveNode::LiveNode(boost::asio::io_context& io, AgentConfig const& config, agent::State const& state,
                   Supervisor& supervisor, HangGuard const& hangs, Send send)
    : io_(io),
      config_(config),
      state_(state),
      send_(std::move(send)),
      workers_(std::make_unique<Workers>(io, supervisor, hangs)),
      timer_(io),
      look_timer_(io) {}

LiveNode::~LiveNode() = default;

void LiveNode::begin(std::uint64_t spread) {
  timer_.after(Millis(1 + spread % static_cast<std::uint64_t>(pace_.count())), [this] { beat(); });
  look();
}

/// All nodes look at the same instants: at whole multiples of the window, as far as their wall clocks agree.
void LiveNode::look() {
  auto const wall = std::chrono::duration_cast<Millis>(std::chrono::system_clock::now().time_since_epoch());
  workers_->look(running_workers(), wall);
  look_timer_.after(live::kWindow - wall % live::kWindow, [this] { look(); });
}

LiveNode::Running LiveNode::running_workers() const {
  Running running{0, 0, 0, config_.facts.host, config_.facts.log_root};
  if (state_.workers && !state_.check && state_.generation) {
    running.number = state_.generation->number;
    running.rank_base = state_.generation->rank_base;
    running.count = state_.generation->local_size;
  }
  return running;
}

void LiveNode::send_pulse() {
  if (state_.joined) {
    (void)send_(workers_->pulse(running_workers()));
  }
}

void LiveNode::beat() {
  if (Clock::now() - paced_ > kPaceHolds) {
    pace_ = rendezvous::Pace{}.every;
  }
  send_pulse();
  timer_.after(pace_, [this] { beat(); });
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
  bool const sooner = pace.every < pace_;
  pace_ = std::clamp(pace.every, Millis{100}, kSlowestPace);
  paced_ = Clock::now();
  if (sooner) {
    beat();
  }
}

void LiveNode::on_coordinator_question(rendezvous::Ask const& ask) {
  auto const reply = [this, id = ask.id](std::string const& text, bool more) {
    live::say_in_parts(text, rendezvous::kMaxTold, more, [&](std::string part, bool another) {
      (void)send_(rendezvous::Told{id, std::move(part), another});
    });
  };
  auto const question = live::parse_question(ask.text);
  if (question) {
    workers_->answer(running_workers(), *question, reply);
  } else {
    reply(live::error_json("this agent does not know the question \"" + printable(ask.text) + "\""), false);
  }
}

void LiveNode::on_coordinator_answer(rendezvous::Told const& told) {
  auto const it = waiting_.find(told.id);
  if (it == waiting_.end()) {
    return;  // too late
  }
  auto const asker = it->second->asker;
  if (told.more) {
    it->second->deadline.after(it->second->patience, [this, id = told.id] { give_up(id); });
  } else {
    waiting_.erase(it);
  }
  asker->say(told.text, told.more);
}

void LiveNode::on_question(os::UniqueFd connection, std::string const& question) {
  if (static_cast<std::size_t>(askers_.use_count()) > kMaxAskers) {
    return;  // so many programs do not read their answers
  }
  auto const asker = std::make_shared<Asker>(io_, std::move(connection), askers_);
  auto const parsed = live::parse_question(question);
  if (parsed && parsed->what == live::Question::What::who) {
    asker->say(live::who_json(config_.facts.run_id, config_.topology.step, config_.facts.host), false);
  } else if (waiting_.size() >= kMaxWaiting) {
    asker->say(live::error_json(live::kTooManyQuestions), false);
  } else {
    ask_coordinator(asker, question, parsed && !is_passed_on(parsed->what));
  }
}

void LiveNode::ask_coordinator(std::shared_ptr<Asker> const& asker, std::string const& question, bool quick) {
  auto const id = ++last_id_;
  send_pulse();  // before the question: the answer then shows this node as it is now
  if (!state_.joined || !send_(rendezvous::Ask{id, question})) {
    return asker->say(
        live::error_json(state_.joined ? "no coordinator: an election is under way; try again in a few seconds"
                                       : "this node has not joined its job yet"),
        false);
  }
  auto waiting = std::make_unique<Waiting>(io_);
  waiting->asker = asker;
  waiting->patience = quick ? kQuickPatience : kLongPatience;
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
