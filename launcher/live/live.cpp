#include "launcher/live/live.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher::live {
namespace {

namespace story = rendezvous::story;
using rendezvous::NodePulse;

constexpr Millis kUnwatched{5000};
constexpr Millis kWatched{1000};
constexpr Millis kForgotten{60'000};  // a silent member is removed after this time
constexpr Millis kSweep{1000};
constexpr int kGap = 3;  // pulses that are missed: the node or this coordinator stood still
constexpr Millis kStepTimeEvery{10'000};
constexpr Millis kHour{3'600'000};
constexpr Millis kAboutAnHour{600'000};  // by so much more than an hour ago is an hour ago, too
constexpr Millis kSpan{10'000};          // over which the mean time of a step is taken

void enter(Live& live, Phase phase, TimePoint now, std::string why = "") {
  live.phase = phase;
  live.since = now;
  live.why = std::move(why);
}

void take(Live& live, story::Formed const& event, TimePoint now) {
  enter(live, Phase::starting, now);
  live.generation = event.generation;
  live.generation_began = now;
  live.nodes = event.nodes;
  live.ranks = event.ranks;
  live.restarts = event.restarts;
  live.members.clear();
  live.steps = {};
  live.windows = {};
  live.window = 0;
  live.told = 0;
}
void take(Live& live, story::NodeLost const& /*event*/, TimePoint /*now*/) {
  ++live.nodes_lost;
}
void take(Live& live, story::Started const& /*event*/, TimePoint now) {
  enter(live, Phase::running, now);
}
void take(Live& live, story::WorkerFailed const& event, TimePoint /*now*/) {
  live.why = "rank " + std::to_string(event.rank) + " on " + event.host + ": " + event.how;
}
void take(Live& live, story::Stopping const& event, TimePoint now) {
  enter(live, Phase::stopping, now, event.why);
}
void take(Live& live, story::Ended const& event, TimePoint now) {
  enter(live, Phase::waiting, now, event.what.why);
}
void take(Live& live, story::Restart const& event, TimePoint /*now*/) {
  live.restarts = event.restarts;
}
void take(Live& live, story::TookOver const& event, TimePoint now) {
  enter(live, Phase::waiting, now, "another node has taken the job over");
  live.generation = event.generation;
  live.ranks = event.known.ranks;
  live.steps = {};
}
void take(Live& live, story::SteppedDown const& event, TimePoint now) {
  enter(live, Phase::waiting, now, event.why);
  live.members.clear();
  live.windows = {};
}
void take(Live& live, story::Concluded const& event, TimePoint now) {
  enter(live, Phase::over, now, event.summary);
}
/// Others are kept as lines alone.
template <class Other>
void take(Live& /*live*/, Other const& /*event*/, TimePoint /*now*/) {}

Reading reading_of(Member const& member, std::size_t local_rank) {
  auto const row = row_of(member.pulse, local_rank);
  auto const base = member.pulse.rank_base;
  return {.rank = base + static_cast<std::uint32_t>(local_rank),
          .node = base,
          .heard = std::chrono::duration_cast<Millis>(member.heard.time_since_epoch()).count(),
          .step = of(row, Figure::step),
          .at = of(row, Figure::at),
          .inside = of(row, Figure::inside),
          .sample = of(row, Figure::sample),
          .forward = of(row, Figure::forward),
          .backward = of(row, Figure::backward),
          .reducing = of(row, Figure::reducing),
          .looks = of(row, Figure::looks),
          .looked_begun = of(row, Figure::looked_begun),
          .looked_at = of(row, Figure::looked_at),
          .fed = of(row, Figure::fed)};
}

/// Why a slow rank's GPU is slow: of a node the first one that is. "": nothing is known of that.
std::string why_gpu_is_slow(Member const& member, Slow const& slow) {
  std::string why;
  for (std::size_t i = slow.rank - member.pulse.rank_base, left = slow.ranks; left > 0 && why.empty(); ++i, --left) {
    auto const gpu = i < member.speeds.size() ? gpu_of(row_of(member.pulse, i)) : std::nullopt;
    why = gpu ? throttled_text(*gpu) : "";
  }
  return why;
}

void note_speed(Speed& speed, Row const& row, TimePoint now) {
  auto const ago = of(row, Figure::step_ago);
  if (ago < 0 || ago > kForgotten.count() * 1000 || of(row, Figure::step) <= 0) {
    return;
  }
  auto const step = static_cast<std::uint64_t>(of(row, Figure::step));
  auto const at = now - Millis(ago);
  bool const first = speed.step == 0;
  if (first || step < speed.step || at < speed.at) {
    speed = {step, at, std::nullopt};
  } else if (step > speed.step && (!speed.per_step || at - speed.at >= kSpan)) {
    auto const span = std::chrono::duration_cast<Millis>(at - speed.at).count();
    speed = {step, at, Millis(span / static_cast<std::int64_t>(std::min<std::uint64_t>(step - speed.step, 1U << 30U)))};
  }
}

void note_reading(Live& live, Member& member) {
  if (member.speeds.empty() || member.pulse.number != live.generation) {
    return;
  }
  auto const window = of(row_of(member.pulse, 0), Figure::at) / kWindow.count();
  if (window > live.window) {
    live.window = window;
    live.told = 0;
  }
  live.told += window == live.window && member.window != window ? 1 : 0;
  member.window = window;
}

void note_step_time(Live& live, TimePoint now) {
  auto& times = live.step_times;
  if (!times.empty() && now - times.back().at < kStepTimeEvery) {
    return;
  }
  std::vector<Millis> all;
  for (auto const& [agent, member] : live.members) {
    for (auto const& speed : member.speeds) {
      if (speed.per_step && member.pulse.number == live.generation) {
        all.push_back(*speed.per_step);
      }
    }
  }
  if (all.empty()) {
    return;
  }
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  times.push_back({now, *middle});
  while (times.size() > 1 && now - times[1].at >= kHour) {
    times.pop_front();
  }
}

}  // namespace

Row row_of(NodePulse const& pulse, std::size_t local_rank) {
  Row row{};
  of(row, Figure::step_ago) = -1;
  for (std::size_t i = 0; i < std::min<std::size_t>(pulse.width, kFigures); ++i) {
    row[i] = pulse.figures[local_rank * pulse.width + i];
  }
  return row;
}

void set_gpu(Row& row, Gpu const& gpu) {
  of(row, Figure::gpu) = std::int64_t{gpu.number} + 1;
  of(row, Figure::gpu_percent) = gpu.percent;
  of(row, Figure::gpu_mhz) = gpu.mhz;
  of(row, Figure::gpu_max_mhz) = gpu.max_mhz;
  of(row, Figure::throttled) = static_cast<std::int64_t>(gpu.throttled);
}

std::optional<Gpu> gpu_of(Row const& row) {
  auto const number = [&row](Figure figure) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(of(row, figure), 0, UINT32_MAX));
  };
  if (of(row, Figure::gpu) <= 0) {
    return std::nullopt;
  }
  return Gpu{number(Figure::gpu) - 1, number(Figure::gpu_percent), number(Figure::gpu_mhz), number(Figure::gpu_max_mhz),
             throttle_in(of(row, Figure::throttled))};
}

void fold(Live& live, story::Event const& event, std::string line, TimePoint now) {
  live.began = now - event.at;
  std::visit([&](auto const& what) { take(live, what, now); }, event.what);
  live.lines.push_back({++live.last_line, std::move(line)});
  if (live.lines.size() > kMostLines) {
    live.lines.pop_front();
  }
}

void fold(Live& live, rendezvous::AgentId agent, std::string const& host, NodePulse pulse, TimePoint now) {
  if (!live.swept || now - *live.swept > kSweep) {  // not at each pulse: thousands of nodes may send them
    live.swept = now;
    std::erase_if(live.members, [&](auto const& known) { return now - known.second.heard > kForgotten; });
  }
  auto& member = live.members[agent];
  if (member.pulse.number != pulse.number) {
    member.speeds.clear();
  }
  auto const workers = pulse.figures.size() / std::max<std::size_t>(pulse.width, 1);
  if (member.pulse.number == live.generation && now - member.heard > kGap * pace_of(live, false)) {
    empty(live.windows);
  }
  member.host = host;
  member.heard = now;
  member.speeds.resize(workers);
  member.pulse = std::move(pulse);
  for (std::size_t i = 0; i < workers; ++i) {
    note_speed(member.speeds[i], row_of(member.pulse, i), now);
  }
  note_reading(live, member);
  note_step_time(live, now);
  if (member.pulse.number == live.generation) {
    live.steps = both(live.steps, at(member.pulse.steps, now));
  }
  if (auto const age = member.pulse.saved) {
    live.saved = std::max(live.saved.value_or(now - *age), now - *age);
  }
}

void fold(Live& live, rendezvous::History const& known) {
  live.account = live.account.value_or(known.account);
  for (auto const spent : rendezvous::kAllSpent) {
    (*live.account)[spent] = std::max((*live.account)[spent], known.account[spent]);
  }
  live.steps_known = live.steps_known || known.steps;
}

std::optional<TimePoint> idle_until(Live const& live) {
  std::size_t ranks = 0;
  std::optional<TimePoint> oldest;
  for (auto const& [agent, member] : live.members) {
    if (member.pulse.number == live.generation && !member.speeds.empty()) {
      ranks += member.speeds.size();
      oldest = std::min(oldest.value_or(member.heard), member.heard);
    }
  }
  return live.steps.first || ranks != live.ranks ? std::nullopt : oldest;
}

// ---- who is slow ------------------------------------------------------------------------------------------------

namespace {

/// A window is over when all nodes have read their figures anew, and have told of the same reading.
std::vector<Reading> new_readings(Live& live) {
  std::vector<Member*> members;
  std::size_t ranks = 0;
  auto const read_at = [](Member const& member) { return of(row_of(member.pulse, 0), Figure::at); };
  bool const pulses_miss_some = pace_of(live, false) > kWindow;
  for (auto& [agent, member] : live.members) {
    if (member.speeds.empty() || member.pulse.number != live.generation) {
      continue;
    }
    bool const together =
        members.empty() || read_at(member) / kWindow.count() == read_at(*members.front()) / kWindow.count();
    if (read_at(member) == member.read || (!together && !pulses_miss_some)) {
      return {};
    }
    members.push_back(&member);
    ranks += member.speeds.size();
  }
  if (ranks != live.ranks) {
    return {};
  }
  std::sort(members.begin(), members.end(),
            [](auto const* a, auto const* b) { return a->pulse.rank_base < b->pulse.rank_base; });
  std::vector<Reading> readings;
  for (auto* const member : members) {
    for (std::size_t i = 0; i < member->speeds.size(); ++i) {
      readings.push_back(reading_of(*member, i));
    }
    member->read = read_at(*member);
  }
  return readings;
}

}  // namespace

story::Slow event_of(Live const& live, Slow const& slow) {
  constexpr std::array kSources{"libcxxrun", "ddp", "begun"};
  constexpr std::array kHow{"by its time in calls of libcxxrun", "by the log of DistributedDataParallel",
                            "by the collectives begun"};
  constexpr std::array kSpent{"", "computing", "input"};
  auto const source = static_cast<std::size_t>(slow.source);
  std::string const spent = kSpent.at(static_cast<std::size_t>(slow.kind));
  auto const percent =
      std::min<std::int64_t>(slow.late.count() * 100 / std::max<std::int64_t>(1, slow.step.count()), 10'000);
  auto const agent = agent_of(live, slow.rank);
  auto const why = agent ? why_gpu_is_slow(live.members.at(*agent), slow) : "";
  return {.generation = live.generation,
          .rank = slow.rank,
          .ranks = slow.ranks,
          .host = agent ? live.members.at(*agent).host : "a lost node",
          .late = slow.late,
          .percent = static_cast<std::uint32_t>(percent),
          .source = kSources.at(source),
          .spent = spent,
          .how = seconds_text(slow.late) + " late in each step of " + seconds_text(slow.step) + " (" +
                 std::to_string(percent) + " %)" + (spent.empty() ? "" : ", " + spent) + "; " + kHow.at(source) +
                 (why.empty() ? "" : "; " + why),
          .over = false};
}

std::vector<story::Slow> look_for_slow(Live& live, TimePoint now) {
  // Where nodes send a pulse in each window, the last one of a window alone completes their readings.
  bool const often = live.told < live.nodes && live.compared && now - *live.compared < kSweep;
  if (live.phase != Phase::running || often) {
    return {};
  }
  live.compared = now;
  std::vector<story::Slow> changes;
  if (auto const readings = new_readings(live); !readings.empty()) {
    for (auto const& change : close_window(live.windows, readings)) {
      auto& slow = changes.emplace_back(event_of(live, change.who));
      if (change.over) {
        slow.over = true;
        slow.how = "holds up the others no more";
      }
    }
  }
  return changes;
}

std::string sentence_of(story::Slow const& slow) {
  auto const name =
      (slow.ranks == 1 ? "rank " + std::to_string(slow.rank) : "each of the " + counted(slow.ranks, "rank")) + " on " +
      slow.host;
  return name + (slow.over ? " " : " is ") + slow.how;
}

std::optional<Millis> hour_ago(Live const& live, TimePoint now) {
  if (live.step_times.empty()) {
    return std::nullopt;
  }
  auto const& oldest = live.step_times.front();
  auto const age = now - oldest.at;
  return age >= kHour && age < kHour + kAboutAnHour ? std::optional(oldest.median) : std::nullopt;
}

Millis pace_of(Live const& live, bool watched) {
  auto const nodes = static_cast<std::int64_t>(std::max<std::size_t>(live.members.size(), live.nodes));
  return std::max(watched ? kWatched : kUnwatched, Millis(nodes * 4));  // 32 us for each
}

std::optional<rendezvous::AgentId> agent_of(Live const& live, std::uint32_t rank) {
  for (auto const& [agent, member] : live.members) {
    auto const base = member.pulse.rank_base;
    if (member.pulse.number == live.generation && rank >= base && rank - base < member.speeds.size()) {
      return agent;
    }
  }
  return std::nullopt;
}

std::string objection_to_change(Live const& live, std::uint64_t shown) {
  if (live.phase != Phase::running) {
    return std::string("its workers do not run now, it is ") + name_of(live.phase) + ": look again by cxxrunctl status";
  }
  return live.generation == shown ? ""
                                  : "generation " + std::to_string(live.generation) + " runs now, and not " +
                                        std::to_string(shown) + " as was shown: look again by cxxrunctl status";
}

}  // namespace cxxrun::launcher::live
