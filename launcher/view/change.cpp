#include "launcher/view/change.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/view/status_text.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::view {
namespace {

/// What a drained node takes with it, and what is left.
std::string without(Table const& table, std::string const& name) {
  std::vector<std::uint32_t> ranks;
  std::uint64_t nodes = 0;
  for (auto const& node : table.members) {
    if (!node.workers.empty() && same_host_name(node.host, name)) {
      ++nodes;
      std::transform(node.workers.begin(), node.workers.end(), std::back_inserter(ranks),
                     [](Worker const& worker) { return worker.rank; });
    }
  }
  auto const left = table.nodes - std::min(table.nodes, std::max<std::uint64_t>(nodes, 1));
  std::string const of = ranks.empty()       ? ", of which no worker is known,"
                         : ranks.size() == 1 ? " with rank "
                                             : " with ranks ";
  return name + of + number_list(std::move(ranks)) + " leaves for good; the others go on as " + counted(left, "node") +
         ", or with a spare in its place. No restart is used up.\n";
}

}  // namespace

std::string what_follows(Table const& table, CtlOptions const& options) {
  Verb const verb = options.verb;
  auto const ranks = counted(table.ranks, "rank") + " on " + counted(table.nodes, "node");
  std::string text = table.run_id + " " + judge(table).sentence + "\n";
  auto const last = table.checkpoint_age ? last_checkpoint_text(*table.checkpoint_age) : "";
  if (verb == Verb::checkpoint) {
    return text + (last.empty() ? "" : last + "\n") + ranks +
           ": each that looks, by checkpoint_wanted(), is asked to save. No worker is stopped.\n";
  }
  text += ranks + ": all are stopped, and have --shutdown-timeout to save; what they do not save is lost.\n";
  if (!last.empty()) {
    text += last + ": that much is " + (verb == Verb::stop ? "lost" : "done again") + " unless they save.\n";
  }
  return text + (verb == Verb::drain     ? without(table, options.node)
                 : verb == Verb::restart ? "They start again as the next generation; no restart is used up.\n"
                                         : "The job ends with exit code 130, and is not queued again.\n");
}

std::string question_of(Table const& table, CtlOptions const& options) {
  return std::string(name_of(options.verb)) + (options.node.empty() ? "" : " " + options.node + " of") +
         " generation " + std::to_string(table.generation) + " of " + table.run_id + "? [y/N] ";
}

live::Question order_of(Table const& table, CtlOptions const& options) {
  using What = live::Question::What;
  live::Question order{What::checkpoint, table.generation, {}, std::nullopt, options.node};
  switch (options.verb) {
    case Verb::restart: order.what = What::restart; break;
    case Verb::drain: order.what = What::drain; break;
    case Verb::stop: order.what = What::stop; break;
    default: break;
  }
  return order;
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
