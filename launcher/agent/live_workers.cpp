#include "launcher/agent/live_workers.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>

#include "launcher/hangs/hang_text.hpp"
#include "launcher/hangs/python_stack.hpp"
#include "launcher/live/live.hpp"
#include "launcher/logs/log_names.hpp"
#include "launcher/workers/supervisor.hpp"
#include "src/base/os/beside.hpp"
#include "src/base/os/fd_io.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/process_usage.hpp"
#include "src/base/worker/page_view.hpp"

namespace cxxrun::launcher {
namespace {

using live::Figure;

constexpr std::size_t kShownFrames = 24;
constexpr Millis kTailPatience{3000};
constexpr Millis kLeastSpan{500};  // of processor time, which the kernel counts in hundredths of a second

/// Its last bytes, from the beginning of a line on where there is one; nothing: there is no such file.
std::optional<std::string> tail_of(std::string const& path, std::uint64_t most) {
  auto const folder = os::Folder::of_ours(os::parent_of(path));
  auto const file = folder ? folder.open_file(os::name_in(path)) : os::UniqueFd();
  struct stat facts {};
  if (!file || fstat(file.get(), &facts) != 0) {
    return std::nullopt;
  }
  auto const from = std::max<off_t>(0, facts.st_size - static_cast<off_t>(most));
  std::string text(static_cast<std::size_t>(facts.st_size - from), '\0');
  auto const got = os::retried([&] { return pread(file.get(), text.data(), text.size(), from); });
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  auto const line = from > 0 ? text.find('\n') : std::string::npos;
  return line == std::string::npos ? text : text.substr(line + 1);
}

std::int64_t whole(std::uint64_t number) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(number, std::numeric_limits<std::int64_t>::max()));
}

void read_page(worker::ControlPage const& page, live::Row& row, TimePoint now) {
  auto const figures = worker::read_figures(page);
  of(row, Figure::step) = whole(page.step.load(std::memory_order_relaxed));
  of(row, Figure::begun) = whole(worker::begun_in_all(figures.entered, figures.groups));
  of(row, Figure::waits) = figures.entered > figures.done || figures.elsewhere ? 1 : 0;
  auto const first = page.first_step.load(std::memory_order_relaxed);
  auto const last = page.last_step.load(std::memory_order_relaxed);
  if (first > 0 && last > 0) {
    TimePoint const at{std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(last))};
    of(row, Figure::step_ago) = std::max<std::int64_t>(0, std::chrono::duration_cast<Millis>(now - at).count());
  }
}

}  // namespace

LiveWorkers::LiveWorkers(boost::asio::io_context& io, Supervisor& supervisor) : io_(io), supervisor_(supervisor) {}

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
  auto const usage = pid > 0 ? os::read_usage(pid) : std::nullopt;
  if (!usage) {
    of(row, Figure::state) = 'E';
    return row;
  }
  of(row, Figure::state) = usage->state;
  of(row, Figure::memory) = whole(os::mib_of_pages(usage->pages));
  auto& used = used_[local_rank];
  auto const passed = std::chrono::duration_cast<Millis>(now - used.at).count();
  bool const same = used.pid == pid && usage->ticks >= used.ticks;
  if (same && passed >= kLeastSpan.count()) {
    auto const ms = os::ms_of_ticks(usage->ticks - used.ticks);
    used = {pid, usage->ticks, now, whole(ms * 1000 / static_cast<std::uint64_t>(passed))};
  } else if (!same) {
    used = {pid, usage->ticks, now, 0};
  }
  of(row, Figure::processor) = used.permille;
  return row;
}

rendezvous::NodePulse LiveWorkers::look(Of const& of) {
  rendezvous::NodePulse pulse{of.number, of.rank_base, static_cast<std::uint32_t>(live::kFigures), {}};
  auto const now = Clock::now();
  for (std::uint32_t i = 0; of.number != 0 && i < of.workers; ++i) {
    auto const row = row_of(i, now);
    pulse.figures.insert(pulse.figures.end(), row.begin(), row.end());
  }
  return pulse;
}

void LiveWorkers::answer(Of const& of, live::Question const& question, Part const& part) {
  std::vector<std::uint32_t> local_ranks;
  for (std::uint32_t i = 0; of.number != 0 && i < of.workers; ++i) {
    auto const& ranks = question.ranks;
    if (ranks.empty() || std::find(ranks.begin(), ranks.end(), of.rank_base + i) != ranks.end()) {
      local_ranks.push_back(i);
    }
  }
  if (local_ranks.empty()) {
    part(live::error_json("no worker of " + of.host + " runs now"), false);
  } else if (question.what == live::Question::What::stacks) {
    take_stacks(of, local_ranks, part);
  } else {
    read_tails(of, local_ranks.front(), std::min(question.number, live::kMostTail), part);
  }
}

/// A worker that is stopped is not asked: to answer, it would have to go on, and its lease may have run out.
void LiveWorkers::take_stacks(Of const& of, std::vector<std::uint32_t> const& local_ranks, Part const& part) {
  auto const left = std::make_shared<std::size_t>(local_ranks.size());
  for (auto const local_rank : local_ranks) {
    auto const say = [left, part, host = of.host, rank = of.rank_base + local_rank](
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

void LiveWorkers::read_tails(Of const& of, std::uint32_t local_rank, std::uint64_t most, Part const& part) {
  auto const dir = of.log_root.empty() ? "" : worker_log_dir(of.log_root, of.number, local_rank);
  auto const rank = of.rank_base + local_rank;
  os::beside<std::string>(
      io_, "cxxrun-tail", kTailPatience,
      [dir, rank, most, host = of.host] {
        std::string text;
        for (auto const* const name : {"stdout.log", "stderr.log"}) {
          auto const file = dir.empty() ? std::nullopt : tail_of(dir + "/" + name, most);
          text += file ? live::tail_json(rank, host, dir + "/" + name, *file) : "";
        }
        return text.empty() ? live::error_json("rank " + std::to_string(rank) + " on " + host +
                                               " writes to the console alone: --log-dir DIR --tee 3 keeps it in files")
                            : text;
      },
      live::error_json("the file system of " + dir + " on " + of.host + " does not answer"),
      [part](std::string const& text) { part(text, false); });
}

}  // namespace cxxrun::launcher
