// Ledger: keeps the history of a job (values/history.hpp): where its time went, generation by generation. Pure.
//
// Time is booked from the start on, without a gap and never twice: the account is always complete up to the moment that
// was booked last, which is its total. What a generation trained is known only when it has ended, so nothing is booked
// while workers run. Of checkpoints it is known how long they took, not when: they are booked at the end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rendezvous/values/history.hpp"
#include "rendezvous/values/steps.hpp"
#include "rendezvous/values/story.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// Part of membership's State.
struct Ledger {
  std::optional<TimePoint> start;  ///< of the job, by this clock
  History history;
  std::optional<TimePoint> running;   ///< workers of a generation run, or are being stopped: since
  std::optional<TimePoint> stopping;  ///< that generation: since
  StepTimes steps;                    ///< of its workers, as far as they have been told
};

/// Since the job's start.
[[nodiscard]] Millis age(Ledger const& ledger, TimePoint now);
/// The job has begun, unless it had before.
void open_ledger(Ledger& ledger, TimePoint now);
/// A generation has ended in failure and none has trained since: what passes is lost to it.
[[nodiscard]] bool owes(History const& history);

/// Books what has passed since; of no use while workers run.
[[nodiscard]] std::vector<story::Stretch> book(Ledger& ledger, TimePoint until, Spent on);
/// The same, while no worker runs: as lost, where something is owed.
[[nodiscard]] std::vector<story::Stretch> book_wait(Ledger& ledger, TimePoint until);

void run(Ledger& ledger, TimePoint now);
void stop(Ledger& ledger, TimePoint now);
void note_steps(Ledger& ledger, StepsAgo const& told, TimePoint now);

/// All workers of the generation under way have ended: books what it did, and adds it to the past. `what` says who it
/// was and why it ended; its times are filled in. Nothing when no workers have run.
[[nodiscard]] std::vector<story::Stretch> close_generation(Ledger& ledger, PastGeneration what, TimePoint now);

/// A text as a decree has it: every voter has to hold the same bytes.
[[nodiscard]] std::string decree_text(std::string const& text);
/// What goes into a decree.
[[nodiscard]] History in_short(History const& history);
/// Goes on with what a decree has. `began`: the job, by this clock, as far as it is known.
void inherit(Ledger& ledger, History const& decided, std::optional<TimePoint> began, TimePoint now);

}  // namespace cxxrun::rendezvous
