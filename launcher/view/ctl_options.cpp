#include "launcher/view/ctl_options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "launcher/live/question.hpp"
#include "launcher/options/option_values.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::view {
namespace {

using Words = std::vector<std::string>;

constexpr std::array<char const*, 12> kVerbs{"status",  "top",   "stacks",     "logs",    "events", "page",
                                             "metrics", "trace", "checkpoint", "restart", "drain",  "stop"};

Result<void> take_ranks(CtlOptions& options, std::string const& word) {
  for (auto const& part : split(word, ',')) {
    auto const rank = parse_number<0xffff'ffff>(part);
    if (!rank) {
      return expected("ranks are expected, 3 or 3,5, not " + printable(word, 60) + "; the job comes last: cxxrunctl " +
                      name_of(options.verb) + " " + (options.verb == Verb::stacks ? "all" : "0") + " " +
                      printable(word, 60));
    }
    options.ranks.push_back(*rank);
  }
  return options.ranks.size() <= live::kMostRanks ? Result<void>()
                                                  : expected("at most " + std::to_string(live::kMostRanks) +
                                                             " ranks at once; `stacks all` asks all of them");
}

Result<Verb> verb_of(std::string const& word) {
  auto const* const known = std::find(kVerbs.begin(), kVerbs.end(), word);
  if (known != kVerbs.end()) {
    return static_cast<Verb>(known - kVerbs.begin());
  }
  auto const nearest = nearest_word(word, {kVerbs.begin(), kVerbs.end()});
  return expected(printable(word, 60) + " is not a command of this program" +
                  (nearest ? "; did you mean " + *nearest + "?"
                           : "; the commands are " + join({kVerbs.begin(), kVerbs.end()}, ", ") +
                                 "; for a run of that id: cxxrunctl status " + printable(word, 60)));
}

/// What a question may contain as one word.
bool is_host(std::string const& word) {
  constexpr std::size_t kLongest = 255;
  return !word.empty() && word.size() <= kLongest &&
         std::all_of(word.begin(), word.end(), [](char c) { return std::isgraph(static_cast<unsigned char>(c)) != 0; });
}

/// [VERB] [RANKS] [JOB] [NODE]
Result<void> take_words(CtlOptions& options, Words words) {
  auto const next = [&words] {
    std::string word = words.front();
    words.erase(words.begin());
    return word;
  };
  if (!words.empty() && std::isdigit(static_cast<unsigned char>(words.front()[0])) == 0) {
    auto const verb = verb_of(next());
    if (!verb) {
      return verb.error();
    }
    options.verb = *verb;
  }
  bool const takes_ranks = options.verb == Verb::stacks || options.verb == Verb::logs;
  if (options.verb == Verb::stacks && options.native && words.empty()) {
    return expected(
        "whose stacks? each of these workers stands still for it: cxxrunctl stacks --native RANKS [JOB], "
        "or `all`");
  }
  if (takes_ranks && !words.empty()) {
    auto const word = next();
    options.slow = word == "slow" && options.verb == Verb::stacks;
    auto taken =
        (word == "all" || options.slow) && options.verb == Verb::stacks ? Result<void>() : take_ranks(options, word);
    if (!taken) {
      return taken;
    }
  }
  if (options.verb == Verb::logs && options.ranks.size() != 1) {
    return expected("whose log? cxxrunctl logs RANK [JOB]");
  }
  if (!words.empty()) {
    options.job = next();
  }
  bool const drains = options.verb == Verb::drain;
  if (options.job.empty() && changes_job(options.verb)) {
    return expected(std::string("which job? cxxrunctl ") + name_of(options.verb) + " JOB" + (drains ? " NODE" : ""));
  }
  if (drains && words.empty()) {
    return expected("which node? cxxrunctl drain JOB NODE");
  }
  if (drains) {
    options.node = next();
    if (!is_host(options.node)) {
      return expected(printable(options.node, 60) + " is no name of a node");
    }
  }
  return words.empty() ? Result<void>() : expected("unexpected argument " + printable(words.front(), 60));
}

Result<void> check(CtlOptions const& options) {
  bool const shows_status = options.verb == Verb::status;
  if (options.check && !shows_status) {
    return expected("--check is for status alone");
  }
  if (options.json && options.verb == Verb::top) {
    return expected("top is for people; for programs: cxxrunctl status --json");
  }
  if (options.follow && options.verb != Verb::events && options.verb != Verb::logs) {
    return expected("--follow is for events and logs alone");
  }
  if (options.native && options.verb != Verb::stacks) {
    return expected("--native is for stacks alone");
  }
  if ((options.port > 0 || !options.token_file.empty()) && options.verb != Verb::page) {
    return expected("--port and --token-file are for page alone");
  }
  if (options.yes && !changes_job(options.verb)) {
    return expected("--yes is for checkpoint, restart, drain and stop alone");
  }
  return {};
}

bool takes_value(OptionRow const& row) {
  return *row.value_name != '\0' && *row.value_name != '[';
}

}  // namespace

char const* name_of(Verb verb) {
  return kVerbs.at(static_cast<std::size_t>(verb));
}

Command ctl_command(CtlOptions& o) {
  return {
      "cxxrunctl",
      "usage: cxxrunctl [status] [JOB]         whether the job trains, how fast, and who holds it up\n"
      "       cxxrunctl top [JOB]              the same each second, on a terminal\n"
      "       cxxrunctl stacks [RANKS] [JOB]   where its workers are\n"
      "       cxxrunctl logs RANK [JOB]        the end of what one of them has written to files; -f goes on\n"
      "       cxxrunctl events [JOB]           what has happened to it\n"
      "       cxxrunctl page [JOB]             all of that in a browser, until Ctrl-C\n"
      "       cxxrunctl metrics [JOB]          the same as Prometheus reads it, once\n"
      "       cxxrunctl trace FILE|JOB         where its time went, for https://ui.perfetto.dev\n"
      "       cxxrunctl checkpoint|restart|stop JOB   changes it, after a question\n"
      "       cxxrunctl drain JOB NODE         the same: goes on without this node\n"
      "       cxxrunctl doctor|init [...]      as cxxrun --doctor, cxxrun --init\n"
      "Looks at a running job of cxxrun from one of its nodes, or through srun.\n",
      "JOB is the number of a Slurm job, its step (4711.0) or, behind a command, the id of a run; without it all jobs\n"
      "on this node are shown. RANKS: 3 or 3,5, slow or all. Manual: man cxxrunctl\n"
      "Exit codes: 0 shown or done, 1 --check found a job that stands still or is not running, or the answer was no,\n"
      "100 bad arguments, 111 no answer, 113 no such job.\n",
      {{"",
        {{"--json", "", "for programs: one line for each job", set(o.json, parse_flag)},
         {"--check", "", "print nothing, and exit with 1 unless the job gets on", set(o.check, parse_flag)},
         {"--verbose", "", "all nodes, frames and ranks, however many lines that takes", set(o.all, parse_flag), "-v"},
         {"--follow", "", "of events and logs: go on with what comes next", set(o.follow, parse_flag), "-f"},
         {"--native", "", "of stacks: by gdb; each worker stands still for it", set(o.native, parse_flag)},
         {"--yes", "", "of checkpoint, restart, drain and stop: do not ask", set(o.yes, parse_flag), "-y"},
         {"--lines", "N", "of logs: at most so many lines of each file [20]", set(o.lines, parse_number<100'000>),
          "-n"},
         {"--port", "N", "of page: the port on 127.0.0.1 [any]", set(o.port, parse_number<65'535>)},
         {"--token-file", "PATH", "of page: write its token there, for this user alone", set(o.token_file, parse_text)},
         version_row,
         help_row}}},
      [&o](Words const& words) {
        auto const taken = take_words(o, words);
        return taken ? check(o) : taken;
      },
      true};
}

Words options_first(Command const& command, Words arguments) {
  auto const rows = command.rows();
  Words options;
  Words words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    auto& argument = arguments[i];
    if (argument == "--") {
      std::move(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end(), std::back_inserter(words));
      break;
    }
    bool const is_option = argument.size() > 1 && argument.front() == '-';
    bool const has_value = std::any_of(rows.begin(), rows.end(), [&](OptionRow const& row) {
      return takes_value(row) && (argument == row.name || argument == row.short_name);
    });
    (is_option ? options : words).push_back(argument);
    if (has_value && i + 1 < arguments.size()) {
      options.push_back(arguments[++i]);
    } else if (has_value) {
      words.clear();  // the parser would take one of them for the missing value
    }
  }
  options.insert(options.end(), words.begin(), words.end());
  return options;
}

std::optional<std::vector<std::string>> other_program(std::vector<std::string> const& arguments) {
  auto const verb = arguments.empty() ? "" : arguments.front();
  auto words =
      verb == "doctor" || verb == "init" ? Words{"cxxrun", "--" + verb} : Words{"python3", "-m", "cxxrun.trace"};
  auto const first = arguments.size() > 1 ? arguments[1] : "";
  bool const names_job =
      !first.empty() && first.front() != '-' && first.find('/') == std::string::npos && !first.ends_with(".jsonl");
  if (words.front() != "cxxrun" && (verb != "trace" || first.empty() || names_job)) {
    return std::nullopt;
  }
  words.insert(words.end(), arguments.begin() + 1, arguments.end());
  return words;
}

bool is_meant(std::string const& job, std::string const& run_id, std::string const& step) {
  return job == run_id || (!step.empty() && (job == step || job == step.substr(0, step.find('.'))));
}

}  // namespace cxxrun::launcher::view
