#include "launcher/hangs/progress_watch.hpp"

#include <algorithm>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

using rendezvous::Standstill;
using Watched = WatchState::Watched;

constexpr Millis kLeastSample{100};
constexpr Millis kMostSample{1000};
constexpr Millis kLeastGap{1000};

Standstill standstill_of(WorkerSample const& seen) {
  return {seen.rank, seen.figures.entered, seen.figures.done, seen.figures.what,  seen.figures.count,
          Millis{0}, seen.halted,          seen.figures.idle, seen.figures.groups};
}

bool moved(Standstill const& before, Standstill const& now) {
  return before.entered != now.entered || before.done != now.done || before.groups != now.groups;
}

/// Records a sample of one worker. Returns a report for the coordinator, if one is due.
std::optional<Standstill> record(Watched& watched, Standstill const& current, TimePoint now,
                                 WatchPolicy const& policy) {
  bool const halted_now = current.halted && !watched.last.halted;
  bool const goes_on = moved(watched.last, current);
  watched.last = current;
  if (goes_on) {
    watched.since = now;
    return std::exchange(watched.told, std::nullopt) ? std::optional(current) : std::nullopt;
  }
  bool const due = !watched.told || halted_now || now - *watched.told >= policy.period;
  if (now - watched.since < policy.period || !due) {
    return std::nullopt;
  }
  watched.told = now;
  auto told = current;
  told.still = std::chrono::duration_cast<Millis>(now - watched.since);
  return told;
}

}  // namespace

Millis WatchPolicy::sample() const {
  return std::clamp(period / 4, kLeastSample, kMostSample);
}

Millis WatchPolicy::gap() const {
  return std::max(period / 2, kLeastGap);
}

WatchPolicy watch_policy(Millis hang_timeout) {
  return {
      (hang_timeout > Millis{0} ? std::min(hang_timeout, rendezvous::kStandstillShown) : rendezvous::kStandstillShown) /
      4};
}

rendezvous::StepTimes steps_in(worker::ControlPage const& page, std::uint64_t generation, TimePoint began,
                               TimePoint now) {
  if (page.generation.load(std::memory_order_acquire) != generation) {
    return {};
  }
  auto const at = [&](std::atomic<std::int64_t> const& word) {
    return std::clamp(TimePoint(std::chrono::nanoseconds(word.load(std::memory_order_relaxed))), began,
                      std::max(began, now));
  };
  bool const stepped = page.first_step.load(std::memory_order_relaxed) != 0;
  auto const from = stepped ? at(page.first_step) : began;
  auto const to = std::max(from, at(stepped ? page.last_step : page.alive));
  Clock::duration const held(page.checkpointing.load(std::memory_order_relaxed));
  auto const checkpoints = std::chrono::duration_cast<Millis>(std::clamp<Clock::duration>(held, Millis{0}, to - from));
  return {stepped ? std::optional(from) : std::nullopt, to,
          held > Millis{0} ? std::optional(checkpoints) : std::nullopt};
}

WatchStep watch_step(WatchState state, std::vector<WorkerSample> const& samples, TimePoint now,
                     WatchPolicy const& policy) {
  WatchStep result;
  bool const suspended = state.looked && now - *state.looked > policy.gap();
  std::map<std::uint32_t, Watched> workers;
  for (auto const& each : samples) {
    auto const current = standstill_of(each);
    auto const before = state.workers.find(each.rank);
    if (before == state.workers.end()) {
      workers.emplace(each.rank, Watched{current, now, std::nullopt});
      continue;
    }
    auto watched = before->second;
    state.workers.erase(before);
    if (suspended) {  // its standstill proves nothing: begin anew
      watched.since = now;
    }
    if (suspended && watched.told) {
      watched.told.reset();
      watched.last = current;
      result.tell.push_back(current);
    } else if (auto told = record(watched, current, now, policy)) {
      result.tell.push_back(*told);
    }
    workers.emplace(each.rank, watched);
  }
  for (auto const& [rank, gone] : state.workers) {  // ended, or its page is of another generation: report that it moves
    if (gone.told) {
      result.tell.push_back(gone.last);
    }
  }
  result.next = WatchState{std::move(workers), now};
  return result;
}

UnseenStep unseen_step(UnseenState state, std::vector<UnseenSample> const& samples, TimePoint now,
                       UnseenPolicy const& policy) {
  UnseenStep result;
  state.began = state.began.value_or(now);
  auto const before = std::exchange(state.stuck, {});
  for (auto const& each : samples) {
    if (each.shows || (each.state != 'T' && each.state != 'D')) {
      continue;
    }
    auto const known = before.find(each.rank);
    bool const same = known != before.end() && known->second.state == each.state;
    auto& stuck = state.stuck[each.rank] = same ? known->second : UnseenState::Stuck{each.state, now, false};
    if (!stuck.named && now - stuck.since >= policy.limit) {
      stuck.named = true;
      result.stuck.push_back(each.rank);
    }
  }
  bool const shows = std::ranges::any_of(samples, [](auto const& each) { return each.shows; });
  result.blind = policy.asked && !state.said && !shows && !samples.empty() && now - *state.began >= policy.limit;
  state.said = state.said || result.blind;
  result.next = std::move(state);
  return result;
}

std::string blind_line(std::string const& host, UnseenPolicy const& policy, bool armed) {
  std::string const head =
      "--hang-timeout: after " + seconds_text(policy.limit) + " no worker on " + host + " shows its collectives, ";
  if (armed) {
    return head +
           "because none has made a process group of torch.distributed with the RANK and WORLD_SIZE that it was given; "
           "once one does, a rank that hangs is named";
  }
  std::string const what = "so that no rank that hangs is named: call cxxrun.install() in the script";
  if (!policy.watch) {
    return head + what + ", or remove --watch off";
  }
  if (!policy.bootstrap) {
    return head + what +
           "; the Python package cxxrun is neither beside the launcher nor in the workers' Python: pip install it "
           "there, or export PYTHONPATH=PREFIX/lib/python3/dist-packages";
  }
  return head + what +
         "; the workers are not Python, or a Python that ignores PYTHONPATH (python -I, -E or -S, a script that resets "
         "PYTHONPATH, a container)";
}

std::string stuck_line(std::string const& name, UnseenSample const& worker, std::string const& told, Millis limit) {
  bool const stopped = worker.state == 'T';
  auto const pid = std::to_string(worker.pid);
  return name + " has not run for " + seconds_text(limit) + ": " + told +
         (stopped ? "; it is stopped (SIGSTOP): kill -CONT " + pid + " resumes it"
                  : "; it is in uninterruptible sleep: a file system or a device does not answer");
}

}  // namespace cxxrun::launcher
