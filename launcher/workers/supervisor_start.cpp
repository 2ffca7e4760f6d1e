#include <array>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "launcher/logs/log_file.hpp"
#include "launcher/workers/supervisor.hpp"
#include "launcher/workers/worker_program.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/limits.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/spawn.hpp"
#include "src/base/os/standard_input.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher {
namespace {

constexpr int kLargePipe = 1024 * 1024;
constexpr int kSmallPipe = 256 * 1024;
constexpr std::size_t kFewStreams = 16;

struct OpenStream {
  os::UniqueFd worker_end;  ///< empty = /dev/null
  PumpStream pump;          ///< without fd: the worker writes to /dev/null
};

/// Of stdout; stderr comes through a pipe always, for its last lines. What goes to a file alone does, too: the worker
/// is not to see that the disk is full.
bool needs_pipe(StreamPlan const& out) {
  return out.console || !out.file.empty();
}

/// Pipe capacity to ask for. Larger pipes let workers write on while the pump is busy: 64 KiB ones halve the
/// throughput. The kernel gives a user 64 MiB in all and shrinks every later pipe when they are spent, so large groups
/// get less.
int pipe_bytes(std::size_t streams) {
  return streams <= kFewStreams ? kLargePipe : kSmallPipe;
}

/// Errc::io when the system is out of descriptors.
Result<OpenStream> open_pipe(StreamPlan const& plan, bool is_stderr, WorkerSpec const& spec, int capacity_bytes) {
  std::array<int, 2> ends{-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail(Errc::io, "cannot open a pipe for a worker's output", errno);
  }
  OpenStream opened;
  opened.worker_end.reset(ends[1]);
  fcntl(ends[1], F_SETPIPE_SZ, capacity_bytes);
  opened.pump = {os::UniqueFd(ends[0]), plan.file, plan.console, is_stderr,
                 spec.prefix,           is_stderr, plan.filters, plan.filtered,
                 plan.rotation,         plan.fold, spec.rank,    spec.inherit_stdin ? kPromptFor : kUnfinishedFor};
  return opened;
}

/// The worker's ends are closed with it: the worker has its own copies, and the pump is to see the end of file.
struct OpenWorker {
  OpenStream out;
  OpenStream err;
  [[nodiscard]] std::vector<PumpStream> for_pump() {
    std::vector<PumpStream> streams;
    for (auto* const stream : {&out.pump, &err.pump}) {
      if (stream->fd) {
        streams.push_back(std::move(*stream));
      }
    }
    return streams;
  }
};

/// Removes the error file of an earlier run and opens the streams.
Result<OpenWorker> open_worker(WorkerSpec const& spec, int capacity_bytes) {
  if (!spec.error_file.empty()) {
    remove_log_file(spec.error_file);
  }
  auto out = needs_pipe(spec.out) ? open_pipe(spec.out, false, spec, capacity_bytes) : OpenStream{};
  auto err = open_pipe(spec.err, true, spec, capacity_bytes);
  if (!out || !err) {
    auto const& error = !out ? out.error() : err.error();
    return fail(error.code, os::explain(error), error.os_errno);
  }
  return OpenWorker{*std::move(out), *std::move(err)};
}

/// A pid, or what is in the way.
struct Start {
  pid_t pid = 0;
  int error = 0;
  std::string why;   ///< one line with errno's text in it
  std::string what;  ///< the file; "" when none is to blame
};

/// The descriptor of cxxrun's standard input for the worker that is to have it; -1: it reads the null device.
int input_for(WorkerSpec const& spec) {
  if (!spec.inherit_stdin) {
    return -1;
  }
  if (os::input_is_in_background()) {  // the worker, in a session of its own, would get no SIGTTIN
    log(Level::warn,
        "--stdin rank0: cxxrun is in the background of its terminal, what is typed there is not for rank 0; start it "
        "in the foreground");
    return -1;
  }
  return STDIN_FILENO;
}

Start cannot_execute(WorkerSpec const& spec, std::string const& path, os::SpawnResult const& tried) {
  return {0, tried.error, os::explain_failed_start(spec.argv.front(), tried.stage, tried.error),
          tried.stage == os::SpawnStage::exec ? path : ""};
}

/// Opens the streams, finds the program and starts it. `streams`: for LogPump::add.
Start start_worker(WorkerSpec const& spec, int capacity_bytes, std::vector<PumpStream>& streams) {
  auto opened = open_worker(spec, capacity_bytes);
  if (!opened) {
    return {0, opened.error().os_errno, opened.error().context, ""};
  }
  auto const found = find_worker_program(spec);
  if (found.path.empty()) {
    return {0, found.error, found.why, found.what};
  }
  os::SpawnRequest const request{found.path,
                                 spec.argv,
                                 spec.environment,
                                 "",
                                 input_for(spec),
                                 spec.out_is_err ? opened->err.worker_end.get() : opened->out.worker_end.get(),
                                 opened->err.worker_end.get(),
                                 spec.cpus,
                                 os::original_nofile_limit(),
                                 spec.keep};
  auto const started = os::spawn(request);
  if (!started.ok()) {
    return cannot_execute(spec, found.path, started);
  }
  streams = opened->for_pump();
  return {started.pid, 0, "", ""};
}

}  // namespace

void Supervisor::start(std::uint64_t generation, std::vector<WorkerSpec> const& workers) {
  if (active_) {
    log(Level::error, "generation " + std::to_string(generation) + " is not started: generation " +
                          std::to_string(generation_) + " has not ended");
    return;
  }
  reap();  // whoever has died waiting is started anew
  if (state_.fills && zygote_) {
    zygote_->cancel();
  }
  generation_ = generation;
  active_ = true;
  told_ = false;
  grace_ = Millis::max();
  descendants_.reset();
  asked_.clear();
  links_.begin(generation);
  if (auto const tainted = deaths_.taint(); !tainted.empty()) {
    log(Level::warn, tainted);
  }
  deaths_.begin();
  prepare_members(workers);
  listen_for_imports();
  starting_ = &workers;
  happen(Begin{static_cast<std::uint32_t>(workers.size())});
  starting_ = nullptr;
  start_missing(workers);
  environments_.begin(workers);
  check_descendants();  // when none could be started the generation is over
}

void Supervisor::fill(std::vector<WorkerSpec> const& workers) {
  reap();
  if (active_ || workers.size() != state_.workers.size()) {
    log(Level::error, "what is missing of generation " + std::to_string(generation_) + " is started with the next one");
    perform(ReportFilled{false});
    return;
  }
  prepare_members(workers);
  happen(Fill{});
  start_missing(workers);
}

void Supervisor::start_missing(std::vector<WorkerSpec> const& workers) {
  std::size_t pipes = 0;
  for (auto const& worker : workers) {
    pipes += needs_pipe(worker.out) ? 2 : 1;
  }
  for (std::size_t i = 0; i < workers.size(); ++i) {
    if (state_.workers[i].life == GroupWorker::Life::pending) {
      start_one(workers[i], members_[i], pipe_bytes(pipes));
    }
  }
  for (auto& member : members_) {  // after the last start: the pump's thread would compete with it
    hand_to_pump(member);
  }
}

// Those that wait keep their process and their streams.
void Supervisor::prepare_members(std::vector<WorkerSpec> const& workers) {
  std::vector<Member> next;
  next.reserve(workers.size());
  for (std::size_t i = 0; i < workers.size(); ++i) {
    bool const waits = i < state_.workers.size() && state_.workers[i].life == GroupWorker::Life::parked;
    Member& member = waits ? next.emplace_back(std::move(members_[i])) : next.emplace_back();
    member.exit = {};
    member.exit.rank = workers[i].rank;
    member.exit.local_rank = static_cast<std::uint32_t>(i);
    member.exit.log = workers[i].log;
    member.error_file = workers[i].error_file;
    member.has_stdin = workers[i].inherit_stdin;
    member.paths = {workers[i].script, workers[i].argv.empty() ? "" : workers[i].argv.front(), workers[i].err.file};
  }
  for (auto& member : members_) {  // of workers that died while they waited: nobody else ends these
    drop_streams(member);
  }
  members_ = std::move(next);
}

void Supervisor::drop_streams(Member& member) {
  for (auto const stream : std::exchange(member.streams, {})) {
    pump_.drain(stream, true, [](LastWords const& /*words*/) {});
  }
}

void Supervisor::perform(ResumeWorker const& what) {
  auto const& spec = (*starting_)[what.local_rank];
  if (links_.resume(what.local_rank, {generation_, resume_environment(spec)})) {
    return;
  }
  log(Level::info, "rank " + std::to_string(spec.rank) + " cannot be told of the next generation: it is started anew");
  auto& member = members_[what.local_rank];
  Descendants::kill_group(state_.workers[what.local_rank].pid);
  drop_streams(member);
  happen(ResumeFailed{what.local_rank});
}

void Supervisor::start_one(WorkerSpec const& spec, Member& member, int capacity_bytes) {
  links_.forget(member.exit.local_rank);
  if (!start_warm(spec, capacity_bytes)) {
    execute(spec, member, capacity_bytes);
  }
}

void Supervisor::execute(WorkerSpec const& spec, Member& member, int capacity_bytes) {
  auto const started = start_worker(spec, capacity_bytes, member.pending);
  if (started.pid == 0) {
    return start_failed(member, started.error, started.why, started.what);
  }
  member.process.emplace(io_, started.pid);
  happen(Started{member.exit.local_rank, started.pid});
}

void Supervisor::start_failed(Member& member, int error, std::string const& why, std::string const& what) {
  member.exit.stderr_tail = why;
  member.exit.cause = what.empty() ? "" : place_of(what);
  happen(StartFailed{member.exit.local_rank, error});
}

std::optional<WarmWorker> Supervisor::open_warm(std::uint32_t local_rank) {
  auto& warm = warm_.at(local_rank);
  auto opened = open_worker(warm.spec, warm.capacity_bytes);
  auto const found = find_worker_program(warm.spec);
  if (!opened || found.path.empty()) {
    warm_.erase(local_rank);
    auto& member = members_.at(local_rank);
    if (opened) {
      start_failed(member, found.error, found.why, found.what);
    } else {
      start_failed(member, opened.error().os_errno, opened.error().context, "");
    }
    return std::nullopt;
  }
  WarmWorker worker;
  int const input = input_for(warm.spec);
  worker.streams.at(0).reset(input >= 0 ? fcntl(input, F_DUPFD_CLOEXEC, 3) : -1);
  worker.streams.at(1) = std::move(opened->out.worker_end);
  worker.streams.at(2) = std::move(opened->err.worker_end);
  worker.words =
      warm_words(warm.spec.argv, warm_command(warm.spec.argv)->script, warm.spec.cpus, warm.spec.environment);
  warm.streams = opened->for_pump();
  return worker;
}

void Supervisor::hand_to_pump(Member& member) {
  for (auto& stream : member.pending) {
    bool const is_stderr = stream.keep_words;
    member.streams.push_back(pump_.add(std::move(stream)));
    if (is_stderr) {
      member.stderr_stream = member.streams.back();
    }
  }
  member.pending.clear();
}

}  // namespace cxxrun::launcher
