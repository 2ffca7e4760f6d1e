#include "launcher/hangs/progress_watch.hpp"

#include <algorithm>
#include <utility>

namespace cxxrun::launcher {
namespace {

using rendezvous::Standstill;
using Watched = WatchState::Watched;

constexpr Millis kLeastSample{100};
constexpr Millis kMostSample{1000};
constexpr Millis kLeastGap{1000};

Standstill standing(Look const& seen) {
  return {seen.rank, seen.figures.entered, seen.figures.done, seen.figures.what,  seen.figures.count,
          Millis{0}, seen.halted,          seen.figures.idle, seen.figures.groups};
}

bool moved(Standstill const& before, Standstill const& now) {
  return before.entered != now.entered || before.done != now.done || before.groups != now.groups;
}

/// What the coordinator is to hear of one worker now, if anything.
std::optional<Standstill> look_at(Watched& watched, Standstill const& now_seen, TimePoint now,
                                  WatchPolicy const& policy) {
  bool const halted_now = now_seen.halted && !watched.last.halted;
  bool const goes_on = moved(watched.last, now_seen);
  watched.last = now_seen;
  if (goes_on) {
    watched.since = now;
    return std::exchange(watched.told, std::nullopt) ? std::optional(now_seen) : std::nullopt;
  }
  bool const due = !watched.told || halted_now || now - *watched.told >= policy.period;
  if (now - watched.since < policy.period || !due) {
    return std::nullopt;
  }
  watched.told = now;
  auto told = now_seen;
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

WatchStep look(WatchState state, std::vector<Look> const& seen, TimePoint now, WatchPolicy const& policy) {
  WatchStep result;
  bool const suspended = state.looked && now - *state.looked > policy.gap();
  std::map<std::uint32_t, Watched> workers;
  for (auto const& each : seen) {
    auto const current = standing(each);
    auto const before = state.workers.find(each.rank);
    if (before == state.workers.end()) {
      workers.emplace(each.rank, Watched{current, now, std::nullopt});
      continue;
    }
    auto watched = before->second;
    state.workers.erase(before);
    if (suspended) {  // what it did not do meanwhile proves nothing
      watched.since = now;
    }
    if (suspended && watched.told) {
      watched.told.reset();
      watched.last = current;
      result.tell.push_back(current);
    } else if (auto told = look_at(watched, current, now, policy)) {
      result.tell.push_back(*told);
    }
    workers.emplace(each.rank, watched);
  }
  for (auto const& [rank, gone] : state.workers) {  // it has ended, or its page is of another generation
    if (gone.told) {
      result.tell.push_back(gone.last);
    }
  }
  result.next = WatchState{std::move(workers), now};
  return result;
}

}  // namespace cxxrun::launcher
