#include "launcher/job_end/requeue_job.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "launcher/facts/discovery.hpp"
#include "launcher/logs/log_names.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/children.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/folder.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/spawn.hpp"

namespace cxxrun::launcher {
namespace {

constexpr Millis kPatience{5000};        // for the state, and again for the requeue
constexpr Millis kReportPatience{1000};  // the report must come before Slurm's SIGKILL
// While slurmctld preempts a job it does not show it for a moment: scontrol prints nothing and exits with 1. So ask
// again.
constexpr int kMostQuestions = 4;
constexpr Millis kBetweenQuestions{250};
constexpr std::chrono::seconds kRecent{600};  // an older preemption is not why the job ends now
constexpr std::size_t kHistoryBytes = std::size_t{64} * 1024;
constexpr std::uint64_t kMostEntries = 10'000;
constexpr int kBetweenLooksMs = 2;  // short: scontrol has closed its output and is about to end
constexpr std::size_t kAnswerBytes = std::size_t{64} * 1024;

void add(Footprint& seen, std::string const& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return;
  }
  seen.exists = true;
  seen.newest_ns = std::max(seen.newest_ns, info.st_mtim.tv_sec * std::int64_t{1'000'000'000} + info.st_mtim.tv_nsec);
  seen.bytes += static_cast<std::uint64_t>(info.st_size);
  ++seen.entries;
}

bool keep(std::string const& path, requeue::History const& history) {
  if (path.empty()) {
    log(Level::warn, "the history of requeues is not kept: there is no HOME; give --log-dir");
    return false;
  }
  std::filesystem::path const file(path);
  std::error_code ignored;  // an error shows when the file is written
  std::filesystem::create_directories(file.parent_path(), ignored);
  auto const folder = os::Folder::open(file.parent_path());
  if (folder && folder.replace(file.filename(), requeue::format_history(history), os::kForUs)) {
    return true;
  }
  log(Level::warn, "the history of requeues is not kept: " + fail(Errc::io, "cannot write " + path, errno).message());
  return false;
}

/// The time `ago` before now as Slurm writes times, in the local zone.
std::string local_time(std::chrono::seconds ago) {
  std::time_t const then = std::time(nullptr) - ago.count();
  std::tm local{};
  std::array<char, 32> text{};
  localtime_r(&then, &local);
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &local)};
}

requeue::History recall(std::string const& path) {
  std::filesystem::path const file(path);
  auto const folder = os::Folder::open(file.parent_path());
  auto const text = folder ? folder.read(file.filename(), kHistoryBytes) : std::nullopt;
  if (!text && errno != ENOENT) {
    auto const why =
        errno == EPERM ? fail(Errc::permission, "it belongs to another user") : fail(Errc::io, "cannot read it", errno);
    log(Level::warn, "ignored the history of requeues in " + path + ": " + why.message());
  }
  auto history = requeue::parse_history(text.value_or(""));
  if (history.garbage) {
    log(Level::warn, "ignored invalid lines of the requeue history in " + path);
  }
  return history;
}

/// Reads until the other end is closed or the deadline has passed.
void read_answer(int fd, TimePoint deadline, std::string& text) {
  while (Clock::now() < deadline) {
    pollfd readable{fd, POLLIN, 0};
    int const ready = os::retried([&] { return poll(&readable, 1, os::poll_time(deadline)); });
    std::string part(4096, '\0');
    ssize_t const got = ready > 0 ? read(fd, part.data(), part.size()) : 0;
    if (got <= 0) {
      return;
    }
    text.append(part, 0, std::min(static_cast<std::size_t>(got), kAnswerBytes - text.size()));
  }
}

/// Waits for the exit of `pid`. Kills it at the deadline and returns nothing.
std::optional<ExitStatus> take_exit(pid_t pid, TimePoint deadline) {
  while (Clock::now() < deadline) {
    if (auto const status = os::reap(pid)) {
      return status;
    }
    poll(nullptr, 0, kBetweenLooksMs);
  }
  kill(pid, SIGKILL);
  static_cast<void>(os::retried([&] { return waitpid(pid, nullptr, 0); }));
  return std::nullopt;
}

/// Runs `scontrol` with these arguments, without a shell, and returns its output, at most 64 KiB. Blocks for at most
/// `patience`, then kills it. Errors: not_found (no scontrol in PATH), timeout, refused (its first line, if it exits
/// with a code other than 0), io. Use it only when this process has no other children to supervise (see Supervisor).
Result<std::string> scontrol(std::vector<std::string> const& arguments, Environment const& environment,
                             Millis patience) {
  auto const deadline = Clock::now() + patience;
  std::vector<std::string> argv = {"scontrol"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  auto const started = os::spawn_piped(std::move(argv), as_words(environment));
  if (!started) {
    bool const absent = started.error().code == Errc::not_found;
    return absent ? fail(Errc::not_found, started.error().context + " (a container often has none)") : started.error();
  }
  std::string text;
  read_answer(started->output.get(), deadline, text);
  auto const status = take_exit(started->pid, deadline);
  if (!status) {
    return fail(Errc::timeout, "slurmctld did not answer in time");
  }
  if (!status->ok()) {
    return fail(Errc::refused, "scontrol: " + printable(trim(text.substr(0, text.find('\n')))));
  }
  return text;
}

Result<requeue::JobState> ask(std::string const& job, Environment const& environment, Millis patience) {
  auto const deadline = Clock::now() + patience;
  for (int question = 1;; ++question) {
    auto const left = std::chrono::duration_cast<Millis>(deadline - Clock::now());
    auto const shown = scontrol({"show", "job", "-o", job}, environment, std::max(left, kBetweenQuestions));
    auto state = shown ? requeue::parse_job_state(*shown) : Result<requeue::JobState>(shown.error());
    bool const again = !state && (state.error().code == Errc::refused || state.error().code == Errc::protocol);
    if (!again || question == kMostQuestions || deadline - Clock::now() < kBetweenQuestions) {
      return state;
    }
    std::this_thread::sleep_for(kBetweenQuestions);
  }
}

}  // namespace

Footprint look_at(std::string const& path) {
  Footprint seen;
  add(seen, path);
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    add(seen, entry->path().string());
    if (seen.entries > kMostEntries) {
      break;
    }
  }
  return seen;
}

bool RequeueJob::active() const {
  return options_.requeue && !requeue::job_name(environment_).empty();
}

std::string RequeueJob::history_path() const {
  auto const name =
      path_component(value_of(environment_, "SLURM_CLUSTER_NAME") + "-" + requeue::job_name(environment_));
  if (!options_.log_dir.empty() && options_.log_dir != "/dev/null") {
    return options_.log_dir + "/requeue-" + name;
  }
  auto const home = value_of(environment_, "HOME");
  return home.empty() ? "" : home + "/.cxxrun/requeue/" + name;
}

void RequeueJob::begin() {
  if (options_.requeue && !active()) {
    log(Level::warn, "--requeue has no effect outside a Slurm job");
  } else if (active() && !options_.progress_path.empty()) {
    before_ = look_at(options_.progress_path);
  }
}

std::vector<rendezvous::NodeFault> RequeueJob::known_faults() const {
  return active() && restart_count(environment_) > 0 ? recall(history_path()).faults
                                                     : std::vector<rendezvous::NodeFault>{};
}

std::string RequeueJob::look_why(rendezvous::Verdict const& verdict) {
  auto const job = requeue::job_name(environment_);
  if (job.empty() || verdict.end != rendezvous::End::stopped || verdict.exit_code != 128 + SIGTERM) {
    return {};
  }
  auto state = ask(job, environment_, kReportPatience);
  if (!state) {
    log(Level::debug, "why Slurm ends the job is not known: " + state.error().message());
    return {};
  }
  seen_ = *std::move(state);
  return requeue::end_reason(*seen_, restart_count(environment_), local_time(kRecent), local_time({}));
}

std::optional<int> RequeueJob::conclude(rendezvous::Verdict const& verdict, Reached const& reached) {
  auto const job = requeue::job_name(environment_);
  auto const advise = [&](requeue::JobState const* again) {
    if (auto const advice = requeue::exclusion_advice(verdict.node_faults, job, again); !advice.empty()) {
      log(Level::warn, advice);
    }
  };
  requeue::Facts facts;
  facts.how = requeue::how_it_ended(verdict, reached.checkpoint, reached.limit);
  facts.late = reached.late;
  if (active() && facts.how == requeue::Ended::success) {
    unlink(history_path().c_str());
  }
  if (!active() || !requeue::may_run_again(facts.how)) {
    if (!job.empty()) {
      advise(nullptr);
    }
    return std::nullopt;
  }
  facts.restarts = restart_count(environment_);
  facts.faults = verdict.node_faults;
  if (!options_.progress_path.empty()) {
    facts.progress = look_at(options_.progress_path) != before_;
  }
  facts.recent = local_time(kRecent);
  auto const state = seen_ ? Result<requeue::JobState>(*seen_) : ask(job, environment_, kPatience);
  auto decision = requeue::decide(facts, state, options_.max_requeues, recall(history_path()));
  if (!keep(history_path(), decision.history)) {  // before the requeue, which ends this process
    decision = requeue::without_history(std::move(decision), facts, options_.max_requeues);
  }
  if (!decision.requeue) {
    log(Level::warn, decision.line);
    advise(nullptr);
    return decision.exit_code;
  }
  log(Level::info, "requeue of job " + job + ": " + decision.line);
  advise(&*state);
  if (auto const asked = scontrol({"requeue", job}, environment_, kPatience); !asked) {
    log(Level::error, "not requeued: " + asked.error().message());
  }
  return std::nullopt;
}

}  // namespace cxxrun::launcher
