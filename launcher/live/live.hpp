// Live: what is known of a job while it runs: Live = fold(Live, event of the story | pulse, now). Pure.
//
// Of whoever coordinates. It is in no decree: an elected coordinator begins with an empty one, which pulses fill within
// one round. Nothing is decided by it. docs/use/live.md.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/protocol/live_messages.hpp"
#include "rendezvous/values/agent_id.hpp"
#include "rendezvous/values/story.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher::live {

/// How fast the steps of one worker come.
struct Speed {
  std::uint64_t step = 0;          ///< that it had completed
  TimePoint at;                    ///< then
  std::optional<Millis> per_step;  ///< the mean of the last ten seconds of steps, or of fewer at the beginning
};

/// A node, as its last pulse has it.
struct Member {
  std::string host;
  rendezvous::NodePulse pulse;
  TimePoint heard;
  std::vector<Speed> speeds;  ///< of its workers, by local rank
};

/// An event as a line of events.jsonl, and its number since this coordinator began.
struct Line {
  std::uint64_t number = 0;
  std::string text;
};
inline constexpr std::size_t kMostLines = 1000;

enum class Phase : std::uint8_t { waiting, starting, running, stopping, over };
[[nodiscard]] constexpr char const* name_of(Phase phase) {
  switch (phase) {
    case Phase::waiting: return "waiting";
    case Phase::starting: return "starting";
    case Phase::running: return "running";
    case Phase::stopping: return "stopping";
    case Phase::over: break;
  }
  return "over";
}

struct Live {
  Phase phase = Phase::waiting;
  std::optional<TimePoint> since;  ///< of the phase
  std::optional<TimePoint> began;  ///< the job, by this clock
  std::uint64_t generation = 0;
  std::optional<TimePoint> generation_began;
  std::uint32_t nodes = 0;  ///< of the generation
  std::uint32_t ranks = 0;
  std::uint32_t restarts = 0;
  std::string why;  ///< it stops, or is over, or what went wrong before it waits
  std::map<rendezvous::AgentId, Member> members;
  std::optional<TimePoint> swept;  ///< when those were forgotten last that are silent
  std::deque<Line> lines;
  std::uint64_t last_line = 0;
};

/// `line`: the event's, for events.jsonl.
void fold(Live& live, rendezvous::story::Event const& event, std::string line, TimePoint now);
void fold(Live& live, rendezvous::AgentId agent, std::string const& host, rendezvous::NodePulse pulse, TimePoint now);

/// How often agents are to send pulses: never more than a hundredth of a core for all of them.
[[nodiscard]] Millis pace_of(Live const& live, bool watched);
/// The agent of the worker of this rank; nothing: no pulse has told of it.
[[nodiscard]] std::optional<rendezvous::AgentId> agent_of(Live const& live, std::uint32_t rank);

/// What the job was started with, to be shown.
struct Facts {
  std::string run_id;
  std::string host;     ///< where it is coordinated
  std::string program;  ///< its name alone; "": not known
  std::optional<std::uint32_t> max_restarts;
  std::string nonce;  ///< of whoever coordinates: another one's events have numbers of their own
};
/// One line: docs/use/live.md says what its fields mean.
[[nodiscard]] std::string live_json(Live const& live, Facts const& facts, TimePoint now);
/// Of an agent: the answer to `who`. `step`: of Slurm, "" = none.
[[nodiscard]] std::string who_json(std::string const& run_id, std::string const& step, std::string const& host);
/// {"error": why}
[[nodiscard]] std::string error_json(std::string const& why);
/// Where a worker is, from the inside outwards; `place`: what the kernel says of it, where there are no frames.
[[nodiscard]] std::string stack_json(std::uint32_t rank, std::string const& host,
                                     std::vector<std::string> const& frames, std::string const& place);
/// The end of a file.
[[nodiscard]] std::string tail_json(std::uint32_t rank, std::string const& host, std::string const& file,
                                    std::string const& text);
/// {"nonce": …}, and a line for each event after number `after`, with "number" first.
[[nodiscard]] std::string lines_json(Live const& live, Facts const& facts, std::uint64_t after);

/// The text in parts of at most `most` bytes, none of which ends within a character of UTF-8; at least one.
[[nodiscard]] std::vector<std::string> parts_of(std::string_view text, std::size_t most);
/// Calls say(part, more) for each of them; `more`: other text follows this one.
template <class Say>
void say_in_parts(std::string_view text, std::size_t most, bool more, Say const& say) {
  auto parts = parts_of(text, most);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    say(std::move(parts[i]), more || i + 1 < parts.size());
  }
}

}  // namespace cxxrun::launcher::live
