// Live: what a coordinator knows of its job while it runs: Live = fold(Live, event of the story | pulse, now). Pure.
//
// It is part of no decree, and nothing is decided by it: an elected coordinator begins with an empty one, which pulses
// fill within one round. docs/use/live.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/live/gpus.hpp"
#include "launcher/live/slow.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/connection.hpp"
#include "rendezvous/values/history.hpp"
#include "rendezvous/values/progress.hpp"
#include "rendezvous/values/story.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher::live {

/// What a pulse says of one worker, as numbers. New figures are appended; an agent or coordinator of another version
/// passes on those that it does not know.
enum class Figure : std::uint8_t {
  step,       ///< training steps that it has completed
  step_ago,   ///< milliseconds since it completed the newest; -1: none yet in this generation
  begun,      ///< collectives begun, in all of its groups
  waits,      ///< 1: it is in a collective
  memory,     ///< MiB that its process has resident
  processor,  ///< processor time of its process since the last pulse, in thousandths of a core
  state,      ///< the kernel's letter, 'R' or 'D'; 'E': it has ended
  // For slow.hpp alone; Reading says what they are.
  at,
  inside,
  sample,
  forward,
  backward,
  reducing,
  looks,
  looked_begun,
  looked_at,
  fed,
  // Of its GPU, and left out where nothing is known of any (gpus.hpp).
  gpu,  ///< its number, from 1 on; 0: nothing is known of it; -1: the driver does not answer
  gpu_percent,
  gpu_mhz,
  gpu_max_mhz,
  throttled,
};
/// Of those that are shown.
inline constexpr std::array kFigureNames{"step",       "step_ago_ms",        "begun", "waits",
                                         "memory_mib", "processor_permille", "state"};
/// Of those from Figure::gpu on.
inline constexpr std::array kGpuFigureNames{"gpu", "gpu_percent", "gpu_mhz", "gpu_max_mhz", "throttled"};
inline constexpr std::size_t kGpuFigures = static_cast<std::size_t>(Figure::gpu);  ///< where these begin
inline constexpr std::size_t kFigures = kGpuFigures + kGpuFigureNames.size();
/// The figures of one worker, by Figure.
using Row = std::array<std::int64_t, kFigures>;

[[nodiscard]] constexpr std::int64_t& of(Row& row, Figure figure) {
  return row[static_cast<std::size_t>(figure)];
}
[[nodiscard]] constexpr std::int64_t of(Row const& row, Figure figure) {
  return row[static_cast<std::size_t>(figure)];
}

/// The figures of a worker. Its numbers may be absurd: a worker writes its page itself.
[[nodiscard]] Row row_of(rendezvous::NodePulse const& pulse, std::size_t local_rank);
/// Where a pulse has figures of GPUs. Nothing: it says nothing of this one.
void set_gpu(Row& row, Gpu const& gpu);
[[nodiscard]] std::optional<Gpu> gpu_of(Row const& row);

/// How fast one worker completes steps.
struct Speed {
  std::uint64_t step = 0;          ///< the last step of the span that `per_step` is of
  TimePoint at;                    ///< when it was completed
  std::optional<Millis> per_step;  ///< mean time of a step over ten seconds, or over a shorter time at the beginning
};

/// A node, according to its last pulse.
struct Member {
  std::string host;
  rendezvous::NodePulse pulse;
  TimePoint heard;
  std::vector<Speed> speeds;  ///< of its workers, by local rank
  std::int64_t read = 0;      ///< Figure::at when readings were last compared
  std::int64_t window = 0;    ///< at whose end the figures of its last pulse were read
};

/// The time of a step at some instant: the median of all workers.
struct StepTime {
  TimePoint at;
  Millis median{0};
};

/// An event as a line of events.jsonl. This coordinator numbers them from 1.
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
  std::optional<TimePoint> since;  ///< begin of the phase
  std::optional<TimePoint> began;  ///< begin of the job, by this clock
  std::uint64_t generation = 0;
  std::optional<TimePoint> generation_began;
  std::uint32_t nodes = 0;  ///< of the generation
  std::uint32_t ranks = 0;  ///< of the generation
  std::uint32_t restarts = 0;
  std::uint32_t nodes_lost = 0;                ///< as far as this coordinator knows
  rendezvous::StepTimes steps;                 ///< of the generation, as far as pulses have told
  std::deque<StepTime> step_times;             ///< of the last hour, and the newest one before that
  std::optional<TimePoint> saved;              ///< the state that the newest known checkpoint holds is of this instant
  std::optional<rendezvous::Account> account;  ///< as it was known last
  bool steps_known = false;                    ///< the program has told of a training step
  std::string why;                             ///< why the job stops, waits or is over
  std::map<rendezvous::AgentId, Member> members;
  std::optional<TimePoint> swept;  ///< when silent members were last removed
  Windows windows;
  std::int64_t window = 0;            ///< the newest one at whose end a node has read its figures
  std::size_t told = 0;               ///< how many nodes have told of that reading
  std::optional<TimePoint> compared;  ///< when it was last looked whether a window is over
  std::deque<Line> lines;
  std::uint64_t last_line = 0;
};

/// `line`: the event as a line of events.jsonl.
void fold(Live& live, rendezvous::story::Event const& event, std::string line, TimePoint now);
void fold(Live& live, rendezvous::AgentId agent, std::string const& host, rendezvous::NodePulse pulse, TimePoint now);
/// `known`: the coordinator's so_far() (rendezvous/history/ledger.hpp). No part of the account becomes less: programs
/// that read it take a smaller one for the begin of a new count.
void fold(Live& live, rendezvous::History const& known);
/// Until when no worker of the generation had completed a step, according to the pulses. Nothing: one has, or not all
/// nodes have told.
[[nodiscard]] std::optional<TimePoint> idle_until(Live const& live);

/// Whether ranks have become slow, or are no more. To be called after each pulse.
[[nodiscard]] std::vector<rendezvous::story::Slow> look_for_slow(Live& live, TimePoint now);
/// A rank that is slow, as it is told.
[[nodiscard]] rendezvous::story::Slow event_of(Live const& live, Slow const& slow);
/// "rank 12 on node2 is 0.31 s late in each step of 1.91 s (16 %); …"
[[nodiscard]] std::string sentence_of(rendezvous::story::Slow const& slow);

/// The median time of a step an hour ago, or up to ten minutes before, if it is known.
[[nodiscard]] std::optional<Millis> hour_ago(Live const& live, TimePoint now);
/// How often agents are to send pulses, so that all of them together cost at most a hundredth of a core.
[[nodiscard]] Millis pace_of(Live const& live, bool watched);
/// The agent whose worker has this rank. Nothing: no pulse has reported it.
[[nodiscard]] std::optional<rendezvous::AgentId> agent_of(Live const& live, std::uint32_t rank);

/// Why the workers of the generation that a person was shown cannot be changed now; "": they can.
[[nodiscard]] std::string objection_to_change(Live const& live, std::uint64_t shown);

}  // namespace cxxrun::launcher::live
