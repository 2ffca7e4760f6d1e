#include "launcher/agent/live_workers.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "launcher/agent/gpu_watch.hpp"
#include "launcher/hangs/hang_guard.hpp"
#include "launcher/hangs/hang_text.hpp"
#include "launcher/hangs/native_stack.hpp"
#include "launcher/hangs/python_stack.hpp"
#include "launcher/live/answers.hpp"
#include "launcher/logs/log_names.hpp"
#include "launcher/logs/log_tail.hpp"
#include "launcher/workers/supervisor.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/run_blocking.hpp"
#include "src/base/worker/page_view.hpp"

namespace cxxrun::launcher {
namespace {

using live::Figure;

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
  auto const reported = page.step.load(std::memory_order_relaxed);
  auto const updates = page.updates.load(std::memory_order_acquire);
  of(row, Figure::step) = as_figure(reported > 0 ? reported : updates);
  of(row, Figure::begun) = as_figure(worker::begun_in_all(figures.entered, figures.groups));
  // Of a program that has begun none, the page says that it may wait elsewhere.
  bool const may_wait = of(row, Figure::begun) > 0 && !figures.idle;
  of(row, Figure::waits) = may_wait && (figures.entered > figures.done || figures.elsewhere) ? 1 : 0;
  bool const has_begun = reported > 0 ? page.first_step.load(std::memory_order_relaxed) > 0 : updates > 0;
  auto const last = (reported > 0 ? page.last_step : page.updated).load(std::memory_order_relaxed);
  if (has_begun && last > 0) {
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

LiveWorkers::LiveWorkers(boost::asio::io_context& io, Supervisor& supervisor, HangGuard const& hangs,
                         Environment const& environment)
    : io_(io), supervisor_(supervisor), hangs_(hangs), environment_(environment) {}

rendezvous::NodePulse LiveWorkers::pulse(RunningWorkers const& running, GpuWatch const& gpus) {
  auto const width = gpus.knows() ? live::kFigures : live::kGpuFigures;
  rendezvous::NodePulse pulse{running.number, running.rank_base, static_cast<std::uint32_t>(width), {}};
  auto const now = Clock::now();
  for (std::uint32_t i = 0; running.number != 0 && i < running.count; ++i) {
    auto row = row_of(i, now);
    if (looked_in_ == running.number) {
      constexpr auto kFirst = static_cast<std::ptrdiff_t>(Figure::at);
      std::copy(looked_[i].begin() + kFirst, looked_[i].end(), row.begin() + kFirst);
    }
    if (auto const gpu = gpus.gpu_of(i)) {
      set_gpu(row, *gpu);
    } else {
      of(row, Figure::gpu) = gpus.is_silent() ? -1 : 0;
    }
    pulse.figures.insert(pulse.figures.end(), row.begin(), row.begin() + static_cast<std::ptrdiff_t>(width));
    if (auto const* const page = supervisor_.page(i)) {
      pulse.saved = newer(pulse.saved, *page, now);
    }
  }
  if (running.number != 0) {
    pulse.steps = ago(hangs_.steps(running.number), now);
  }
  return pulse;
}

void LiveWorkers::look(RunningWorkers const& running, Millis at) {
  looked_in_ = running.number;
  looked_.assign(running.count, live::Row{});
  for (std::uint32_t i = 0; i < running.count; ++i) {
    of(looked_[i], Figure::at) = at.count();
    if (auto const* const page = supervisor_.page(i)) {
      read_lateness(*page, looked_[i]);
    }
  }
}

void LiveWorkers::answer(RunningWorkers const& running, live::Question const& question, Part const& part) {
  std::vector<std::uint32_t> local_ranks;
  for (std::uint32_t i = 0; running.number != 0 && i < running.count; ++i) {
    auto const& ranks = question.ranks;
    if (ranks.empty() || std::ranges::find(ranks, running.rank_base + i) != ranks.end()) {
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
  } else if (question.what == live::Question::What::native) {
    take_native_stacks(running, local_ranks, part);
  } else {
    read_tails(running, local_ranks.front(), question, part);
  }
}

/// 0: it has ended.
pid_t LiveWorkers::program_of(std::uint32_t local_rank) const {
  return supervisor_.pid_of(local_rank) > 0 ? supervisor_.program_of(local_rank) : 0;
}

live::Row LiveWorkers::row_of(std::uint32_t local_rank, TimePoint now) {
  live::Row row{};
  of(row, Figure::step_ago) = -1;
  if (auto const* const page = supervisor_.page(local_rank)) {
    read_page(*page, row, now);
  }
  pid_t const pid = program_of(local_rank);
  auto const usage = pid > 0 ? os::read_stat(pid) : std::nullopt;
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
void LiveWorkers::take_stacks(RunningWorkers const& running, std::vector<std::uint32_t> const& local_ranks,
                              Part const& part) {
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

/// One after the other: a worker stands still no longer than its own stack takes.
void LiveWorkers::take_native_stacks(RunningWorkers const& running, std::vector<std::uint32_t> const& local_ranks,
                                     Part const& part) {
  if (std::exchange(traces_, true)) {
    return part(live::error_json("gdb runs on " + running.host + " for another question: try again later"), false);
  }
  auto const tracing = std::make_shared<Tracing>(Tracing{running.host, {}, part});
  std::for_each(local_ranks.rbegin(), local_ranks.rend(), [&](std::uint32_t local_rank) {
    tracing->left.push_back({running.rank_base + local_rank, local_rank, program_of(local_rank)});
  });
  trace_next(tracing);
}

void LiveWorkers::trace_next(std::shared_ptr<Tracing> const& tracing) {
  auto const worker = tracing->left.back();
  auto const say = [this, tracing, worker](std::vector<std::string> const& frames, std::string const& place) {
    tracing->left.pop_back();
    traces_ = !tracing->left.empty();
    tracing->part(live::stack_json(worker.rank, tracing->host, frames, place), traces_);
    if (traces_) {
      trace_next(tracing);
    }
  };
  bool const same = worker.pid > 0 && program_of(worker.local_rank) == worker.pid;
  auto const stat = same ? os::read_stat(worker.pid) : std::nullopt;
  if (!stat) {
    return say({}, "it has ended");
  }
  if (stat->state == 'T' || stat->state == 'D') {  // the debugger would wait for it, and have to continue it
    return say({}, os::describe_stuck(worker.pid));
  }
  ask_debugger(io_, supervisor_, debugger_command(worker.pid, true), environment_,
               [this, tracing, say](Result<std::string> const& written) {
                 if (!written) {  // nor would there be of the others
                   traces_ = false;
                   bool const missing = written.error().code == Errc::not_found;
                   return tracing->part(live::error_json(tracing->host + ": " + written.error().message() +
                                                         (missing ? "; install the package gdb on that node" : "")),
                                        false);
                 }
                 auto const frames = main_frames(*written, kShownFrames);
                 say(frames, frames.empty() ? why_no_stack(*written) : "");
               });
}

void LiveWorkers::read_tails(RunningWorkers const& running, std::uint32_t local_rank, live::Question const& question,
                             Part const& part) {
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

}  // namespace cxxrun::launcher
