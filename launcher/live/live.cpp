#include "launcher/live/live.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "launcher/live/figures.hpp"

namespace cxxrun::launcher::live {
namespace {

namespace story = rendezvous::story;
using rendezvous::NodePulse;

constexpr Millis kUnwatched{5000};
constexpr Millis kWatched{1000};
constexpr Millis kForgotten{60'000};
constexpr Millis kSweep{1000};
constexpr Millis kSpan{10'000};  // of steps whose mean is shown

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
}
void take(Live& live, story::SteppedDown const& event, TimePoint now) {
  enter(live, Phase::waiting, now, event.why);
  live.members.clear();
}
void take(Live& live, story::Concluded const& event, TimePoint now) {
  enter(live, Phase::over, now, event.summary);
}
/// Those of nodes are in the lines alone.
template <class Other>
void take(Live& /*live*/, Other const& /*event*/, TimePoint /*now*/) {}

/// A worker's numbers may be absurd: its page is its own.
Row row_of(NodePulse const& pulse, std::size_t local_rank) {
  Row row{};
  of(row, Figure::step_ago) = -1;
  for (std::size_t i = 0; i < std::min<std::size_t>(pulse.width, kFigures); ++i) {
    row[i] = pulse.figures[local_rank * pulse.width + i];
  }
  return row;
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

}  // namespace

void fold(Live& live, story::Event const& event, std::string line, TimePoint now) {
  live.began = now - event.at;
  std::visit([&](auto const& what) { take(live, what, now); }, event.what);
  live.lines.push_back({++live.last_line, std::move(line)});
  if (live.lines.size() > kMostLines) {
    live.lines.pop_front();
  }
}

void fold(Live& live, rendezvous::AgentId agent, std::string const& host, NodePulse pulse, TimePoint now) {
  if (!live.swept || now - *live.swept > kSweep) {  // not at each pulse: there may be thousands of nodes
    live.swept = now;
    std::erase_if(live.members, [&](auto const& known) { return now - known.second.heard > kForgotten; });
  }
  auto& member = live.members[agent];
  if (member.pulse.number != pulse.number) {
    member.speeds.clear();
  }
  auto const workers = pulse.figures.size() / std::max<std::size_t>(pulse.width, 1);
  member.host = host;
  member.heard = now;
  member.speeds.resize(workers);
  member.pulse = std::move(pulse);
  for (std::size_t i = 0; i < workers; ++i) {
    note_speed(member.speeds[i], row_of(member.pulse, i), now);
  }
}

Millis pace_of(Live const& live, bool watched) {
  auto const nodes = static_cast<std::int64_t>(std::max<std::size_t>(live.members.size(), live.nodes));
  return std::max(watched ? kWatched : kUnwatched, Millis(nodes * 5 / 2));  // 25 us for each
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

std::vector<std::string> parts_of(std::string_view text, std::size_t most) {
  std::vector<std::string> parts;
  do {
    auto end = std::min(text.size(), most);
    auto const inside = [&] { return end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U; };
    while (end > 0 && inside()) {
      --end;
    }
    end = end == 0 ? std::min(text.size(), most) : end;  // it is no UTF-8
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  } while (!text.empty());
  return parts;
}

}  // namespace cxxrun::launcher::live
