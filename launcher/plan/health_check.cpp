#include "launcher/plan/health_check.hpp"

#include "launcher/logs/log_names.hpp"
#include "src/core/text.hpp"
#include "src/core/variables.hpp"

namespace cxxrun::launcher {
namespace {

std::string last_line(std::string const& text) {
  std::string last;
  for (auto const& line : split(text, '\n')) {
    if (!trim(line).empty()) {
      last = trim(line);
    }
  }
  return printable(last);
}

}  // namespace

WorkerSpec plan_check(rendezvous::Generation const& generation, Options const& options, NodeFacts const& facts,
                      Environment const& inherited) {
  Environment environment = inherited;
  environment[variables::kGeneration] = std::to_string(generation.number);
  environment[variables::kHost] = facts.host;
  environment[variables::kRunId] = facts.run_id;
  environment["LOCAL_WORLD_SIZE"] = std::to_string(generation.local_size);
  WorkerSpec check;
  check.argv = {"/bin/sh", "-c", options.health_check};
  check.environment = as_words(environment);
  check.prefix = "[" + facts.host + ":health] ";
  check.out = StreamPlan{"", false};
  check.err.file = facts.log_root.empty() ? "" : attempt_dir(facts.log_root, generation.number) + "/health.log";
  check.out_is_err = true;
  return check;
}

std::string explain_check(std::vector<rendezvous::WorkerExit> const& exits, std::vector<std::string> const& unkillable,
                          std::optional<Millis> limit) {
  if (!unkillable.empty()) {
    return "health check: survives SIGKILL: " + unkillable.front();
  }
  if (exits.empty()) {
    return "health check: its end is unknown";
  }
  auto const& exit = exits.front();
  if (!limit && exit.status.ok()) {
    return {};
  }
  std::string why = "health check: ";
  why += limit ? "still ran after " + seconds_text(*limit) : exit.status.describe();
  auto const line = last_line(exit.stderr_tail);
  return line.empty() ? why : why + ": " + line;
}

}  // namespace cxxrun::launcher
