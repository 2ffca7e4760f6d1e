#include "launcher/view/job_search.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "launcher/live/answers.hpp"
#include "launcher/view/ctl_options.hpp"
#include "launcher/view/slurm_jobs.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/spawn.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher::view {
namespace {

constexpr Millis kForQuick{8000};        // for: what the agent knows
constexpr Millis kForLong{20'000};       // for: stacks and logs of ranks
constexpr Millis kForDebugger{300'000};  // for: one worker after the other
constexpr Millis kForWay{10'000};        // longer, by way of srun
constexpr Millis kForSqueue{20'000};
constexpr Millis kForSrun{20'000};     // until the relay has found its jobs
constexpr std::size_t kMostNodes = 4;  // that are tried
constexpr Millis kIdle{120'000};       // of a relay that is asked nothing: srun may be gone

Millis patience_for(live::Question const& question) {
  return question.what == live::Question::What::native ? kForDebugger
         : is_passed_on(question.what)                 ? kForLong
                                                       : kForQuick;
}

bool is_in_path(std::string const& program, Environment const& environment) {
  return os::find_program(program, as_words(environment)).error == 0;
}

/// The jobs that squeue lists.
Result<std::vector<SlurmJob>> ask_squeue(Environment const& environment) {
  auto const squeue = Program::start(squeue_words(), environment);
  if (!squeue) {
    return squeue.error();
  }
  std::string text;
  auto const until = Clock::now() + kForSqueue;
  for (;;) {
    auto const line = (*squeue)->lines().line(until);
    if (!line && line.error().code != Errc::closed) {
      return fail(Errc::closed, "squeue does not answer within " + seconds_text(kForSqueue));
    }
    if (!line) {
      return read_squeue(text);
    }
    text += *line + "\n";
  }
}

/// The jobs that a relay on this node finds.
Result<std::vector<Job>> jobs_on(std::string const& node, SlurmJob const& slurm_job, std::string const& wanted,
                                 Environment const& environment) {
  std::error_code ignored;
  auto const program = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  auto started = Program::start(srun_words(slurm_job, node, program, wanted), environment);
  if (!started) {
    return started.error();
  }
  std::shared_ptr<Program> const relay = std::move(*started);
  auto const answer = relay->lines().answer(Clock::now() + kForSrun);
  if (!answer) {
    return answer.error();
  }
  std::vector<Job> jobs;
  for (auto const& line : split(*answer, '\n')) {
    auto const who = read_who(line);
    if (who) {
      jobs.push_back({*who, {}, relay, jobs.size()});
    }
  }
  return jobs;
}

}  // namespace

FoundJobs find_jobs(std::string const& wanted) {
  FoundJobs found;
  std::map<std::string, Job> jobs;
  std::set<pid_t> known;  // agents of which no other socket has to be asked
  for (auto const& agent : find_agents()) {
    if (known.count(agent.pid) > 0) {
      continue;
    }
    auto const answer = view::ask(agent, live::question_text({}), Clock::now() + kForWho);
    auto const who = answer ? read_who(*answer) : Result<Who>(answer.error());
    bool const silent = !answer && answer.error().code == Errc::timeout;
    if (who && (wanted.empty() || is_meant(wanted, who->run_id, who->step))) {
      jobs.try_emplace(who->run_id, Job{*who, agent, nullptr, 0});
    }
    if (silent) {
      found.silent.insert(agent.pid);
    }
    if (who || silent) {
      known.insert(agent.pid);
    }
  }
  for (auto& [run, job] : jobs) {
    found.jobs.push_back(std::move(job));
  }
  return found;
}

Result<std::vector<Job>> find_jobs_elsewhere(std::string const& wanted) {
  auto const environment = environment_for_slurm(os::read_environment());
  if (!may_be_slurm_job(wanted) || !is_in_path("squeue", environment) || !is_in_path("srun", environment)) {
    return fail(Errc::environment, "Slurm cannot be asked");
  }
  auto listed = ask_squeue(environment);
  if (!listed) {
    return listed.error();
  }
  auto const meant = jobs_meant(std::move(*listed), wanted);
  if (meant.size() != 1) {
    return meant.empty() ? fail(Errc::not_found, no_job_text(wanted) + " on this node, and squeue lists none elsewhere")
                         : fail(Errc::usage, several_jobs_text(meant));
  }
  auto const& slurm_job = meant.front();
  std::vector<std::string> asked;
  bool is_there = false;
  for (auto const& node : slurm_job.nodes) {
    auto jobs = jobs_on(node, slurm_job, wanted, environment);
    is_there = is_there || jobs;
    if (jobs && !jobs->empty()) {
      return jobs;
    }
    asked.push_back(node);
    if (asked.size() == kMostNodes) {
      break;
    }
  }
  auto const where = "job " + slurm_job.name + " of Slurm, asked on " + join(asked, ", ");
  return is_there ? fail(Errc::not_found, "no cxxrun answers in " + where)
                  : fail(Errc::closed, "srun starts nothing in " + where);
}

Result<std::string> ask(Job const& job, live::Question const& question) {
  auto const until = Clock::now() + patience_for(question);
  return job.relay ? job.relay->ask(std::to_string(job.index) + " " + question_text(question), until + kForWay)
                   : view::ask(job.agent, question_text(question), until);
}

Result<std::string> EventStream::next(Job const& job, live::Question const& question) {
  if (job.relay) {
    return ask(job, question);  // the stream is there
  }
  auto const until = Clock::now() + patience_for(question);
  for (;;) {
    bool const begins = !connection_;
    if (begins) {
      auto begun = begin_asking(job.agent, question_text(question), until);
      if (!begun) {
        return begun.error();
      }
      connection_ = std::move(*begun);
      rest_.clear();
    }
    auto const part = next_part(connection_.get(), until);
    if (!part || !part->more) {
      connection_.reset();
    }
    if (!part && (begins || part.error().code != Errc::closed)) {
      return part.error();
    }
    rest_ += part ? part->text : "";  // nothing: the agent has ended, or hung up on a program that did not read
    if (auto const end = rest_.rfind('\n'); part && end != std::string::npos) {
      auto const lines = rest_.substr(0, end + 1);
      rest_.erase(0, end + 1);
      return lines;
    }
  }
}

void serve_relay(std::vector<Job> const& jobs) {
  std::string found;
  for (auto const& job : jobs) {
    found += live::who_json(job.who.run_id, job.who.step, job.who.host) + "\n";
  }
  std::vector<EventStream> streams(jobs.size());
  LineReader questions(STDIN_FILENO);
  bool heard = write_answer(STDOUT_FILENO, found);
  while (heard) {
    auto const line = questions.line(Clock::now() + kIdle);
    auto const space = line ? line->find(' ') : std::string::npos;
    auto const index = line ? number_in<std::size_t>(std::string_view(*line).substr(0, space)) : std::nullopt;
    auto const question = index ? live::parse_question(std::string_view(*line).substr(space + 1)) : std::nullopt;
    if (!question || *index >= jobs.size()) {
      return;
    }
    auto const& job = jobs[*index];
    auto const answer =
        question->what == live::Question::What::follow ? streams[*index].next(job, *question) : ask(job, *question);
    if (!answer && answer.error().code == Errc::closed) {
      return;  // to the one that asks it is as if the agent's socket had closed
    }
    heard = write_answer(STDOUT_FILENO, answer ? *answer : live::error_json(answer.error().context));
  }
}

}  // namespace cxxrun::launcher::view
