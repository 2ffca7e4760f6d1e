#include "launcher/view/change.hpp"

#include "launcher/view/status_text.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::view {

std::string what_follows(Table const& table, Verb verb) {
  auto const ranks = counted(table.ranks, "rank") + " on " + counted(table.nodes, "node");
  std::string text = table.run_id + " " + judge(table).sentence + "\n";
  auto const last = table.checkpoint_age ? last_checkpoint_text(*table.checkpoint_age) : "";
  if (verb == Verb::checkpoint) {
    return text + (last.empty() ? "" : last + "\n") + ranks +
           ": each that looks, by checkpoint_wanted(), is asked to save. No worker is stopped.\n";
  }
  text += ranks + ": all are stopped, and have --shutdown-timeout to save; what they do not save is lost.\n";
  if (!last.empty()) {
    text += last + ": that much is " + (verb == Verb::restart ? "done again" : "lost") + " unless they save\n";
  }
  return text + (verb == Verb::restart ? "They start again as the next generation; no restart is used up.\n"
                                       : "The job ends with exit code 130, and is not queued again.\n");
}

std::string question_of(Table const& table, Verb verb) {
  return std::string(name_of(verb)) + " generation " + std::to_string(table.generation) + " of " + table.run_id +
         "? [y/N] ";
}

Outcome outcome_of(Change const& change) {
  if (change.workers == 0) {
    return {change.done, !change.done.empty()};
  }
  if (change.asked == 0) {
    return {"none of " + counted(change.workers, "worker") +
                " can be asked: they do not use libcxxrun or the Python package; a signal reaches every program: "
                "scancel --signal=USR1 JOB",
            false};
  }
  return {"asked " + std::to_string(change.asked) + " of " + counted(change.workers, "worker") + " to save", true};
}

}  // namespace cxxrun::launcher::view
