// Ledger: accounts for the wall time of a job, generation by generation (values/history.hpp). Pure.
//
// Time is booked from the start on, without gaps and never twice: the account is complete up to the moment booked last,
// which is its total. What a generation has trained is known only when it has ended, so nothing is booked while workers
// run; so_far() tells what is known by then. For checkpoints it is known how long they took, but not when: they are
// booked at the end of the training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/values/history.hpp"
#include "rendezvous/values/progress.hpp"
#include "rendezvous/values/story.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// Part of membership's State.
struct Ledger {
  std::optional<TimePoint> start;  ///< of the job, by this clock
  History history;
  std::optional<TimePoint> running;   ///< since when workers of a generation run, or are being stopped
  std::optional<TimePoint> stopping;  ///< since when that generation is being stopped
  StepTimes steps;                    ///< of its workers, as far as reported
};

/// Time since the job's start.
[[nodiscard]] Millis age(Ledger const& ledger, TimePoint now);
/// The job begins now, unless it has begun before.
void open_ledger(Ledger& ledger, TimePoint now);
/// The last generation failed and none has trained since: time is booked as lost to it.
[[nodiscard]] bool owes(History const& history);

/// Books the time up to `until`. Not for use while workers run.
[[nodiscard]] std::vector<story::Stretch> book(Ledger& ledger, TimePoint until, Spent on);
/// The same while no worker runs: as lost or as waiting.
[[nodiscard]] std::vector<story::Stretch> book_wait(Ledger& ledger, TimePoint until);

/// The workers of a generation start, and are told to stop.
void start_generation(Ledger& ledger, TimePoint now);
void stop_generation(Ledger& ledger, TimePoint now);
void note_steps(Ledger& ledger, StepsAgo const& reported, TimePoint now);

/// All workers of the generation have ended: books its time and appends it to the past. `what` has its identity and why
/// it ended; the times are filled in. Does nothing if no workers have run.
[[nodiscard]] std::vector<story::Stretch> close_generation(Ledger& ledger, PastGeneration what, TimePoint now);

/// The history as it is told while the job runs: with what is known of the time that is not booked yet. Of workers that
/// run that is the time up to their newest step: whether what follows is training is seen later. `steps`: what they
/// have told of, beside the ledger. `idle_until`: no worker has completed a step, or none runs, until then; unset: not
/// known. Nothing: workers run, and what they have done is not known.
[[nodiscard]] std::optional<History> so_far(Ledger ledger, StepTimes const& steps, std::optional<TimePoint> idle_until);

/// The text as a decree has it: short printable ASCII, so that every voter holds the same bytes.
[[nodiscard]] std::string decree_text(std::string const& text);
/// What goes into a decree.
[[nodiscard]] History in_short(History const& history);
/// Starts over with the history of a decree. `began`: when the job began, by this clock, if known.
void inherit(Ledger& ledger, History const& decided, std::optional<TimePoint> began, TimePoint now);

}  // namespace cxxrun::rendezvous
