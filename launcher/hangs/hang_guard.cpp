#include "launcher/hangs/hang_guard.hpp"

#include <algorithm>
#include <cassert>
#include <csignal>
#include <utility>

#include "launcher/hangs/native_stack.hpp"
#include "launcher/hangs/nccl_ras.hpp"
#include "launcher/hangs/python_stack.hpp"
#include "launcher/logs/log_file.hpp"
#include "launcher/logs/log_names.hpp"
#include "launcher/workers/supervisor.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/run_blocking.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kShownOperations = 3;
constexpr std::size_t kShownFrames = 8;
constexpr std::size_t kShownPythonFrames = 16;  // a waiting DataLoader takes 11 of them
constexpr Millis kLastLook{2000};               // before the end of the grace; Python's stacks may take as long
constexpr Millis kRasLimit = kRasPatience + Millis{500};  // it also looks up a name
constexpr int kMostNoted = 8;                             // in a generation: a long evaluation may look like a hang

}  // namespace

HangGuard::HangGuard(boost::asio::io_context& io, Supervisor& supervisor, Options const& options,
                     NodeFacts const& facts, Environment environment, agent::Inbox& agent)
    : io_(io),
      supervisor_(supervisor),
      host_(facts.host),
      log_root_(facts.log_root),
      ras_(ras_address(facts, environment)),
      environment_(std::move(environment)),
      agent_(agent),
      policy_(watch_policy(options.terms.hang_timeout)),
      unseen_policy_{.limit = policy_.period * 4,
                     .asked = options.terms.hang_timeout > Millis{0},
                     .watch = options.watch,
                     .bootstrap = !facts.bootstrap.empty()},
      timer_(io),
      late_timer_(io) {}

void HangGuard::begin(rendezvous::Generation const& generation) {
  generation_ = generation;
  watch_ = {};
  killing_.clear();
  frozen_ = false;
  noted_ = 0;
  began_ = Clock::now();
  workers_ = generation.local_size;
  rank_base_ = generation.rank_base;
  unseen_ = {.began = {}, .said = unseen_.said, .stuck = {}};
  late_timer_.cancel();
  arm();
}

void HangGuard::stopping(StopOrder const& order) {
  end();
  if (order.grace > Millis{0}) {
    auto const left = std::min(kLastLook, order.grace / 2);
    late_timer_.after(order.grace - left, [this, order, left] { report_late_workers(order, left); });
  }
}

void HangGuard::end() {
  generation_.reset();
  timer_.cancel();
  late_timer_.cancel();
  patience_.clear();
}

rendezvous::StepTimes HangGuard::steps(std::uint64_t number) const {
  rendezvous::StepTimes all;
  for (std::uint32_t local_rank = 0; local_rank < workers_; ++local_rank) {
    if (auto const* const page = supervisor_.page(local_rank)) {
      all = both(all, steps_in(*page, number, began_, Clock::now()));
    }
  }
  return all;
}

// ---- watching ----------------------------------------------------------------------------------------------

void HangGuard::arm() {
  timer_.after(policy_.sample(), [this] {
    arm();
    if (!frozen_) {
      watch_pages();
    }
    if (!frozen_ && generation_) {  // watch_pages() may have led to a freeze or a stop
      watch_unseen_workers();
    }
  });
}

/// The worker's figures, if it has a Communicator of this generation.
std::optional<worker::Figures> HangGuard::figures_of(std::uint32_t local_rank) {
  auto const* const page = supervisor_.page(local_rank);
  if (page == nullptr || !generation_) {
    return std::nullopt;
  }
  auto const figures = worker::read_figures(*page);
  return figures.generation == generation_->number ? std::optional(figures) : std::nullopt;
}

void HangGuard::watch_pages() {
  assert(generation_);  // the timer runs between begin() and end()
  std::vector<WorkerSample> samples;
  for (std::uint32_t local_rank = 0; local_rank < generation_->local_size; ++local_rank) {
    pid_t const pid = supervisor_.program_of(local_rank);
    auto const figures = pid > 0 ? figures_of(local_rank) : std::nullopt;
    if (figures) {
      auto const stat = os::read_stat(pid);
      bool const halted = stat && stat->state == 'T';
      if (halted || !figures->elsewhere) {  // a worker that waits in a group is left to that group's own timeout
        samples.push_back({generation_->rank_base + local_rank, *figures, halted});
      }
    }
  }
  auto step = watch_step(std::move(watch_), samples, Clock::now(), policy_);
  watch_ = std::move(step.next);
  if (!step.tell.empty()) {
    agent_.feed(agent::StoodStill{generation_->number, std::move(step.tell)});
  }
}

/// Names workers without a page of this generation that are stuck.
void HangGuard::watch_unseen_workers() {
  std::vector<UnseenSample> samples;
  for (std::uint32_t local_rank = 0; local_rank < generation_->local_size; ++local_rank) {
    pid_t const pid = supervisor_.program_of(local_rank);
    auto const stat = pid > 0 ? os::read_stat(pid) : std::nullopt;
    if (stat) {
      samples.push_back({rank_base_ + local_rank, pid, stat->state, figures_of(local_rank).has_value()});
    }
  }
  auto step = unseen_step(std::move(unseen_), samples, Clock::now(), unseen_policy_);
  unseen_ = std::move(step.next);
  for (auto const& each : samples) {
    if (std::ranges::find(step.stuck, each.rank) != step.stuck.end()) {
      log(Level::warn,
          stuck_line(rank_name(each.rank, host_), each, os::describe_stuck(each.pid), unseen_policy_.limit));
    }
  }
  if (step.blind && rank_base_ == 0) {  // said by one node: the workers of the others are alike
    bool const armed = std::ranges::any_of(samples, [](auto const& each) { return answers_python(each.pid); });
    log(armed ? Level::info : Level::warn, blind_line(host_, unseen_policy_, armed));
  }
}

/// Shows frames of the first late worker only: the others are mostly at the same place.
void HangGuard::report_late_workers(StopOrder const& order, Millis left) {
  auto const first = std::make_shared<bool>(true);
  for (std::uint32_t local_rank = 0; local_rank < workers_; ++local_rank) {
    if (supervisor_.pid_of(local_rank) == 0) {
      continue;
    }
    auto const who = rank_name(rank_base_ + local_rank, host_);
    auto const what = " has not ended " + seconds_text(order.grace - left) + " after " + signal_name(order.signal) +
                      " and is killed in " + seconds_text(left);
    auto const pid = supervisor_.pid_of(local_rank);
    auto const said = [weak = weak_from_this(), local_rank, pid, who, what, first](PythonAnswer const& python) {
      if (auto const self = weak.lock(); self && self->supervisor_.pid_of(local_rank) == pid) {
        self->supervisor_.stands_at(local_rank, place_and_frames(python.written, kShownFrames));
      }
      auto const place = place_in({.python = python.written, .native = ""});
      log(Level::warn, who + what + (place.empty() ? "" : "; it is at " + place));
      if (!python.written.empty() && std::exchange(*first, false)) {
        std::string const head = who + ": ";
        for (auto const& frame : python_frames(python.written, kShownPythonFrames)) {
          log(Level::warn, head + frame);
        }
      }
    };
    ask_python(io_, supervisor_.program_of(local_rank), said);
  }
}

// ---- killing ------------------------------------------------------------------------------------------------

std::string HangGuard::name(agent::KillWorker const& what) const {
  return rank_name(what.order.rank, host_);
}

/// Whether the worker still is where the coordinator saw it.
bool HangGuard::still_hangs(agent::KillWorker const& what) {
  auto const figures =
      generation_ && generation_->number == what.order.number ? figures_of(what.local_rank) : std::nullopt;
  return figures && worker::begun_in_all(figures->entered, figures->groups) == what.order.entered &&
         supervisor_.pid_of(what.local_rank) > 0;
}

void HangGuard::kill(agent::KillWorker const& what) {
  if (what.order.named) {
    return handle_named(what);
  }
  if (!still_hangs(what)) {
    log(Level::info, name(what) + " has moved; not killing it");
    return;
  }
  if (!killing_.insert_or_assign(what.local_rank, what.order).second) {
    return;
  }
  pid_t const pid = supervisor_.program_of(what.local_rank);
  log(Level::warn, name(what) + " (pid " + std::to_string(pid) + ") " + what.order.why + "; it is to be killed");
  auto const operations = worker::read_operations(*supervisor_.page(what.local_rank));
  for (std::size_t i = 0; i < std::min(operations.size(), kShownOperations); ++i) {
    log(Level::warn, name(what) + ": " + worker::describe_entry(operations[i], Clock::now()));
  }
  auto const text = [=, now = Clock::now(), who = name(what)](Stacks const& stacks) {
    return hang_file(who + " (pid " + std::to_string(pid) + ") " + what.order.why, operations, stacks, now);
  };
  take_stacks(pid, [this, what, text](Stacks const& stacks, bool judged_for_good) {
    show_stack(what, stacks);
    write(what, text(stacks));
    // Not meanwhile: the debugger stops the whole process.
    ask_nccl([this, what, where = place_in(stacks), judged_for_good](std::string const& section) {
      write(what, section);
      finish(what, where, judged_for_good);
    });
  });
}

void HangGuard::note(rendezvous::story::Hang const& hang) {
  if (generation_ && generation_->number == hang.generation && noted_++ < kMostNoted) {
    ask_nccl([this, dir = attempt_dir(log_root_, hang.generation), how = hang.how](std::string const& section) {
      write(dir, section.empty() ? "" : how + "\n" + section + "\n");
    });
  }
}

/// `done` gets what to add to hang.txt: "" if NCCL has no address, or there are no files. It is not called if this
/// object is destroyed before.
void HangGuard::ask_nccl(std::function<void(std::string const& section)> done) {
  if (ras_.empty() || log_root_.empty()) {
    return done("");
  }
  os::run_blocking<std::string>(
      io_, "cxxrun-ras", kRasLimit, [address = ras_] { return ask_ras(address); }, "none: no answer within 5 s",
      [weak = weak_from_this(), address = ras_, done = std::move(done)](std::string const& answer) {
        if (auto const self = weak.lock()) {
          done(ras_section(address, answer));
        }
      });
}

/// Takes Python's own stacks, or else the debugger's, which takes seconds. `done` is not called if this object is
/// destroyed before. `judged_for_good`: the worker was continued to answer, so its moves since then do not clear it.
void HangGuard::take_stacks(pid_t pid, std::function<void(Stacks const&, bool judged_for_good)> done) {
  ask_python(io_, pid, [weak = weak_from_this(), pid, done = std::move(done)](PythonAnswer const& python) {
    auto const self = weak.lock();
    if (self && !python.written.empty()) {
      done({.python = python.written, .native = ""}, python.was_stopped);
    } else if (self) {
      ask_debugger(self->io_, self->supervisor_, debugger_command(pid), self->environment_,
                   [weak, done, was_stopped = python.was_stopped](Result<std::string> const& native) {
                     if (auto const still = weak.lock()) {
                       auto const text = native ? *native : "none: " + native.error().message() + "\n";
                       done({.python = "", .native = text}, was_stopped);
                     }
                   });
    }
  });
}

void HangGuard::show_stack(agent::KillWorker const& what, Stacks const& stacks) const {
  auto frames = python_frames(stacks.python, kShownPythonFrames);
  if (frames.empty()) {
    frames = main_frames(stacks.native, kShownFrames);
  }
  for (auto const& frame : frames) {
    log(Level::warn, name(what) + ": " + frame);
  }
  if (frames.empty()) {
    log(Level::warn, name(what) + ": no stack: " + why_no_stack(stacks.native));
  }
}

void HangGuard::write(agent::KillWorker const& what, std::string const& text) const {
  write(worker_log_dir(log_root_, what.order.number, what.local_rank), text);
}

void HangGuard::write(std::string const& dir, std::string const& text) const {
  if (log_root_.empty() || text.empty()) {
    return;
  }
  auto const path = dir + "/hang.txt";
  auto const file = open_log_file(path);
  if (auto const written = file ? append_to_log(*file, path, text) : Result<void>(file.error()); !written) {
    log(Level::warn, written.error().message());
  }
}

void HangGuard::finish(agent::KillWorker const& what, std::string const& where, bool judged_for_good) {
  auto const place = killing_.find(what.local_rank);
  if (place == killing_.end() || place->second.number != what.order.number) {
    return;  // another generation runs
  }
  agent::KillWorker const newest{what.local_rank, place->second};  // a newer order may have replaced `what`
  killing_.erase(place);
  if (generation_ && (judged_for_good || still_hangs(newest))) {
    supervisor_.kill_worker(newest.local_rank, newest.order.why + (where.empty() ? "" : "; it stood at " + where));
  } else if (generation_) {
    log(Level::info, name(newest) + " has moved meanwhile; not killing it");
  }
}

// ---- named workers --------------------------------------------------------------------------------------------

void HangGuard::handle_named(agent::KillWorker const& what) {
  if (!generation_ || generation_->number != what.order.number) {
    return;
  }
  auto end = supervisor_.end_of(what.local_rank);
  switch (fate_of(*what.order.named, sample_named(what.local_rank))) {
    case NamedFate::nothing: return;
    case NamedFate::killed: return kill_named(what);
    case NamedFate::failed: end->hung = what.order.why; return agent_.feed(agent::WorkerEnded{what.order.number, *end});
    case NamedFate::asked: supervisor_.ask_to_give_up(what.local_rank); break;
    case NamedFate::patience: break;
  }
  auto const [place, is_new] = patience_.try_emplace(what.local_rank, io_);
  auto const* const page = supervisor_.page(what.local_rank);
  if (is_new && page != nullptr) {
    place->second.alive = page->alive.load(std::memory_order_relaxed);
  }
  place->second.timer.after(kNamedLook, [this, what] { handle_named(what); });
}

NamedWorker HangGuard::sample_named(std::uint32_t local_rank) {
  auto const end = supervisor_.end_of(local_rank);
  bool const runs = supervisor_.pid_of(local_rank) > 0;
  auto const figures = figures_of(local_rank);
  auto const stat = runs ? os::read_stat(supervisor_.program_of(local_rank)) : std::nullopt;
  NamedWorker seen{.end = end ? std::optional(end->status) : std::nullopt,
                   .runs = runs,
                   .waits = figures && (figures->entered > figures->done || figures->elsewhere),
                   .halted = stat && stat->state == 'T'};
  auto const* const page = supervisor_.page(local_rank);
  auto const known = patience_.find(local_rank);
  if (known == patience_.end()) {
    return seen;
  }
  auto const now = Clock::now();
  auto const ago = [now](TimePoint then) { return std::chrono::duration_cast<Millis>(now - then); };
  auto& patience = known->second;
  seen.since = ago(patience.since);
  if (page != nullptr && page->heard.load(std::memory_order_acquire) == generation_->number) {
    patience.heard = patience.heard.value_or(now);
    seen.heard = ago(*patience.heard);
    seen.answered = page->answered.load(std::memory_order_acquire) == generation_->number;
    seen.moved = page->alive.load(std::memory_order_relaxed) != patience.alive;
  }
  return seen;
}

void HangGuard::kill_named(agent::KillWorker const& what) {
  auto const line = name(what) + " (pid " + std::to_string(supervisor_.pid_of(what.local_rank)) + ") " + what.order.why;
  log(Level::warn, line + "; it is killed");
  auto const* const page = supervisor_.page(what.local_rank);
  auto const operations = page == nullptr ? std::vector<worker::SeenOperation>{} : worker::read_operations(*page);
  write(what, hang_file(line, operations, {.python = "", .native = "none: the others waited\n"}, Clock::now()));
  supervisor_.kill_worker(what.local_rank, what.order.why);
}

}  // namespace cxxrun::launcher
