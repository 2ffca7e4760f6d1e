// cxxrunctl: asks the agents of this node, or of a Slurm job, about their jobs and shows the answers. It changes a job
// only where the user says so.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <set>
#include <string>
#include <sys/types.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "launcher/live/answers.hpp"
#include "launcher/live/question.hpp"
#include "launcher/view/change.hpp"
#include "launcher/view/ctl_options.hpp"
#include "launcher/view/following.hpp"
#include "launcher/view/job_search.hpp"
#include "launcher/view/metrics.hpp"
#include "launcher/view/other_program.hpp"
#include "launcher/view/page.hpp"
#include "launcher/view/slurm_jobs.hpp"
#include "launcher/view/status_text.hpp"
#include "launcher/view/table.hpp"
#include "launcher/view/top.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/process_limits.hpp"

namespace cxxrun::launcher::view {
namespace {

constexpr int kExitCheck = 1;
constexpr int kExitNoJob = 113;

void complain(std::string const& line) {
  std::fprintf(stderr, "cxxrunctl: %s\n", line.c_str());
}

int silent_agents(std::set<pid_t> const& silent) {
  complain("cxxrun runs here and does not answer within " + seconds_text(kForWho) + ": pid " +
           join_first(8, list_of(silent, [](pid_t pid) { return std::to_string(pid); })) +
           "; `ps -o pid,stat,wchan -p PID` tells whether it is stopped (T: kill -CONT PID)");
  return kExitSystem;
}

int no_job(CtlOptions const& options) {
  auto const job = printable(options.job, 100);
  complain(no_job_text(options.job) + " on this node" + (job.empty() ? "" : ", as far as its agents tell") +
           "; from elsewhere: srun --overlap --jobid=" + (job.empty() ? "JOB" : job.substr(0, job.find('.'))) +
           " --nodes=1 --ntasks=1 cxxrunctl");
  return kExitNoJob;
}

int not_found_elsewhere(CtlOptions const& options, Error const& why) {
  if (why.code == Errc::environment) {
    return no_job(options);
  }
  complain(why.context);
  return why.code == Errc::not_found ? kExitNoJob : why.code == Errc::usage ? kExitUsage : kExitSystem;
}

int no_answer(Job const& job, std::string const& why) {
  complain(job.who.run_id + ": " + why);
  return kExitSystem;
}

Result<Table> ask_status(Job const& job) {
  return read_table(ask(job, {live::Question::What::status, 0, {}}));
}

int show_status(Job const& job, CtlOptions const& options) {
  auto const table = ask_status(job);
  if (!table) {
    if (options.check) {
      return kExitCheck;
    }
    return no_answer(job, table.error().context);
  }
  auto const [sentence, well] = judge(*table);
  if (!options.check) {
    std::fputs((options.json ? table_json(*table, sentence, well) + "\n" : status_text(*table, options.all)).c_str(),
               stdout);
  }
  return options.check && !well ? kExitCheck : 0;
}

int show_metrics(Job const& job, CtlOptions const& options) {
  auto const table = ask_status(job);
  if (!table) {
    return no_answer(job, table.error().context);
  }
  std::fputs(metrics_text(*table, options.all).c_str(), stdout);
  return 0;
}

int tell_errors(Job const& job, std::vector<std::string> const& errors) {
  for (auto const& error : errors) {
    no_answer(job, error);
  }
  return errors.empty() ? 0 : kExitSystem;
}

int show_stacks(Job const& job, CtlOptions const& options) {
  auto ranks = options.ranks;
  if (options.slow) {
    auto const table = ask_status(job);
    if (!table) {
      return no_answer(job, table.error().context);
    }
    ranks = slow_ranks(*table, live::kMostRanks);
    if (ranks.empty()) {
      return no_answer(job, "no rank is slow");
    }
  }
  using What = live::Question::What;
  if (options.native) {
    complain("a worker stands still while gdb reads its stack, for 10 s at most");
  }
  auto const answer = ask(job, {options.native ? What::native : What::stacks, 0, std::move(ranks)});
  if (!answer) {
    return no_answer(job, answer.error().context);
  }
  auto stacks = read_stacks(*answer);
  std::fputs(options.json ? answer->c_str() : stacks_text(std::move(stacks.items), options.all).c_str(), stdout);
  return tell_errors(job, stacks.errors);
}

int show_logs(Job const& job, CtlOptions const& options) {
  auto const answer = ask(job, {live::Question::What::logs, live::kMostTail, options.ranks});
  if (!answer) {
    return no_answer(job, answer.error().context);
  }
  auto const tails = read_tails(*answer);
  auto const lines = static_cast<std::size_t>(options.lines);
  std::string text = options.json ? "" : tails_text(tails.items, lines, isatty(STDOUT_FILENO) == 1);
  for (auto i = tails.items.begin(); options.json && i != tails.items.end(); ++i) {
    text += live::tail_json(i->rank, i->host, {i->file, last_lines(i->text, lines), 0, ""});
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return tell_errors(job, tails.errors);
}

/// Whether the person at the terminal says yes.
bool says_yes(std::string const& question) {
  std::fputs(question.c_str(), stderr);
  std::array<char, 16> said{};
  return std::fgets(said.data(), said.size(), stdin) != nullptr && (said[0] == 'y' || said[0] == 'Y');
}

int change(Job const& job, CtlOptions const& options) {
  auto const table = ask_status(job);
  if (!table) {
    return no_answer(job, table.error().context);
  }
  std::fputs(what_follows(*table, options).c_str(), stderr);
  if (!options.yes && isatty(STDIN_FILENO) == 0) {
    complain("nothing is done: there is no terminal to answer at; --yes does it without a question");
    return kExitUsage;
  }
  if (!options.yes && !says_yes(question_of(*table, options))) {
    complain("nothing is done");
    return kExitCheck;
  }
  auto const answer = ask(job, order_of(*table, options));
  if (!answer) {
    return no_answer(job, answer.error().context);
  }
  auto const changed = read_change(*answer);
  auto const [line, done] = outcome_of(changed);
  if (!done) {
    return line.empty() ? tell_errors(job, changed.errors) : no_answer(job, line);
  }
  std::fputs(options.json ? answer->c_str() : (job.who.run_id + ": " + line + "\n").c_str(), stdout);
  return tell_errors(job, changed.errors);
}

int show_trace(Job const& job) {
  auto const answer = ask(job, {live::Question::What::events, 0, {}});
  auto const events = answer ? read_events(*answer) : Events{{{}, {answer.error().context}}, "", 0};
  return events.errors.empty() ? become({"python3", "-m", "cxxrun.trace", "/dev/stdin"}, events_file(events.items))
                               : tell_errors(job, events.errors);
}

int show(Job const& job, CtlOptions const& options) {
  if (changes_job(options.verb)) {
    return change(job, options);
  }
  switch (options.verb) {
    case Verb::top: return show_top(job);
    case Verb::stacks: return show_stacks(job, options);
    case Verb::logs: return options.follow ? follow_logs(job, options) : show_logs(job, options);
    case Verb::events: return show_events(job, options);
    case Verb::page: return show_page(job, options);
    case Verb::metrics: return show_metrics(job, options);
    case Verb::trace: return show_trace(job);
    default: break;
  }
  return show_status(job, options);
}

/// On standard input another cxxrunctl asks, on another node.
int relay(std::string const& job) {
  auto const [jobs, silent] = find_jobs(job);
  if (!silent.empty()) {
    silent_agents(silent);
  }
  serve_relay(jobs);
  return 0;
}

int run(std::vector<std::string> const& arguments) {
  if (!arguments.empty() && arguments.front() == kRelayOption) {
    return relay(arguments.size() > 1 ? arguments[1] : "");
  }
  if (auto const other = other_program(arguments)) {
    return become(*other);
  }
  CtlOptions options;
  auto const command = ctl_command(options);
  if (auto const early = parse(command, options_first(command, arguments))) {
    std::fputs(early->text.c_str(), early->code == 0 ? stdout : stderr);
    return early->code;
  }
  if (auto const why = options.verb == Verb::top ? objection_to_top() : ""; !why.empty()) {
    complain(why);
    return kExitUsage;
  }
  auto [jobs, silent] = find_jobs(options.job);
  if (jobs.empty() && !silent.empty()) {
    return silent_agents(silent);
  }
  if (jobs.empty()) {
    auto elsewhere = find_jobs_elsewhere(options.job);
    if (!elsewhere) {
      return not_found_elsewhere(options, elsewhere.error());
    }
    jobs = std::move(*elsewhere);
  }
  if (options.verb != Verb::status && jobs.size() > 1) {
    auto const runs = list_of(jobs, [](Job const& job) { return job.who.run_id; });
    complain("several jobs run there, say which one: " + join(runs, ", "));
    return kExitUsage;
  }
  int code = silent.empty() || !options.job.empty() ? 0 : silent_agents(silent);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::fputs(i > 0 && !options.json && !options.check ? "\n" : "", stdout);
    code = std::max(code, show(jobs[i], options));
    if (std::fflush(stdout) != 0) {
      break;  // main() says why
    }
  }
  return code;
}

}  // namespace
}  // namespace cxxrun::launcher::view

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): writing to a closed pipe returns an error instead
  try {
    return cxxrun::os::after_output("cxxrunctl", cxxrun::launcher::view::run({argv + std::min(argc, 1), argv + argc}));
  } catch (std::exception const& error) {  // out of memory
    std::fprintf(stderr, "%s\n", cxxrun::os::explain_refusal("cxxrunctl", error).c_str());
    return cxxrun::kExitSystem;
  }
}
