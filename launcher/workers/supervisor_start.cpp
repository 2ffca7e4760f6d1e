#include <cassert>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "launcher/logs/log_file.hpp"
#include "launcher/logs/log_names.hpp"
#include "launcher/workers/supervisor.hpp"
#include "launcher/workers/worker_program.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/process_limits.hpp"
#include "src/base/os/spawn.hpp"
#include "src/base/os/standard_input.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::launcher {
namespace {

constexpr int kLargePipe = 1024 * 1024;
constexpr int kSmallPipe = 256 * 1024;
constexpr std::size_t kFewStreams = 16;
constexpr Millis kLookForImports{500};
constexpr std::size_t kImportsBytes = std::size_t{64} << 10;
constexpr std::uint32_t kMostRefused = 5;

struct OpenStream {
  os::UniqueFd worker_end;  ///< empty: the worker writes to /dev/null
  PumpStream pump;          ///< without fd in that case
};

/// Whether stdout needs a pipe. stderr always has one, because its last lines are kept. A stream that goes only to a
/// file has one, too, so that the worker does not notice a full disk.
bool needs_pipe(StreamPlan const& out) {
  return out.console || !out.file.empty();
}

/// Pipe capacity to ask for. Large pipes let workers go on writing while the pump is busy: with 64 KiB the throughput
/// is halved. A user gets 64 MiB of pipe memory from the kernel, and later pipes are small once it is spent, so large
/// groups of workers ask for less.
int pipe_bytes(std::size_t streams) {
  return streams <= kFewStreams ? kLargePipe : kSmallPipe;
}

/// Errors: io, when no descriptor is left.
Result<OpenStream> open_pipe(StreamPlan const& plan, bool is_stderr, WorkerSpec const& spec, int capacity_bytes) {
  os::Pipe pipe = os::make_pipe();
  if (!pipe) {
    return fail(Errc::io, "cannot open a pipe for a worker's output", errno);
  }
  fcntl(pipe.write.get(), F_SETPIPE_SZ, capacity_bytes);
  OpenStream opened;
  opened.worker_end = std::move(pipe.write);
  opened.pump = {std::move(pipe.read), plan.file, plan.console, is_stderr,
                 spec.prefix,          is_stderr, plan.filters, plan.filtered,
                 plan.rotation,        plan.fold, spec.rank,    spec.inherit_stdin ? kPromptFor : kUnfinishedFor};
  return opened;
}

/// Closes our copies of the worker's ends when it is destroyed, so that the pump sees the end of file when the worker
/// closes its own.
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

/// Removes the worker's error file of an earlier start and opens its streams.
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

/// The result of starting a worker: its pid, or an error.
struct StartResult {
  pid_t pid = 0;
  int error = 0;
  std::string why;   ///< one line that includes the text of `error`
  std::string what;  ///< the file that causes the error; "" when there is none
};

/// The descriptor that a worker gets as standard input: cxxrun's own for --stdin rank0, else -1 for the null device.
int input_for(WorkerSpec const& spec) {
  if (!spec.inherit_stdin) {
    return -1;
  }
  if (os::input_is_in_background()) {  // a worker has its own session, so SIGTTIN would not stop it from reading
    log(Level::warn,
        "--stdin rank0: cxxrun runs in the background of its terminal, so rank 0 gets nothing that is typed there; "
        "start it in the foreground");
    return -1;
  }
  return STDIN_FILENO;
}

StartResult cannot_execute(WorkerSpec const& spec, std::string const& path, os::SpawnResult const& tried) {
  return {0, tried.error, os::explain_failed_start(spec.argv.front(), tried.stage, tried.error),
          tried.stage == os::SpawnStage::exec ? path : ""};
}

/// Opens the streams, finds the program and starts it. `streams`: filled with our ends, for LogPump::add.
StartResult start_worker(WorkerSpec const& spec, int capacity_bytes, std::vector<PumpStream>& streams) {
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
  reap();  // a waiting worker that has died is started again instead of resumed
  if (state_.fills && zygote_) {
    zygote_->cancel();
  }
  generation_ = generation;
  active_ = true;
  reported_ = false;
  grace_ = Millis::max();
  descendants_.reset();
  asked_.clear();
  links_.begin(generation);
  if (auto const tainted = deaths_.taint(); !tainted.empty()) {
    log(Level::warn, tainted);
  }
  deaths_.begin(inbox_.parent_kills());
  prepare_members(workers);
  watch_imports();
  starting_ = &workers;
  feed(Begin{static_cast<std::uint32_t>(workers.size())});
  starting_ = nullptr;
  start_missing(workers);
  environments_.begin(workers);
  check_descendants();  // ends the generation if no worker could be started
}

void Supervisor::fill(std::vector<WorkerSpec> const& workers) {
  reap();
  if (active_ || workers.size() != state_.workers.size()) {
    log(Level::error, "generation " + std::to_string(generation_) + ": missing workers are started with the next one");
    perform(ReportFilled{false});
    return;
  }
  prepare_members(workers);
  feed(Fill{});
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
  for (auto& member : members_) {  // only now: the pump's thread would slow the starts down
    hand_to_pump(member);
  }
}

// Waiting workers keep their process and their streams.
void Supervisor::prepare_members(std::vector<WorkerSpec> const& workers) {
  std::vector<Member> next;
  next.reserve(workers.size());
  for (std::size_t i = 0; i < workers.size(); ++i) {
    bool const waits = i < state_.workers.size() && state_.workers[i].life == GroupWorker::Life::parked;
    assert(workers[i].local_rank == i);
    Member& member = waits ? next.emplace_back(std::move(members_[i])) : next.emplace_back();
    member.exit = {};
    member.has_parked = false;
    member.exit.rank = workers[i].rank;
    member.exit.local_rank = static_cast<std::uint32_t>(i);
    member.exit.log = workers[i].log;
    member.error_file = workers[i].error_file;
    member.has_stdin = workers[i].inherit_stdin;
    member.paths = {workers[i].script, workers[i].argv.empty() ? "" : workers[i].argv.front(), workers[i].err.file};
  }
  for (auto& member : members_) {  // streams of workers that died while they waited: nothing else closes them
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
  assert(starting_ != nullptr);
  auto const& spec = (*starting_)[what.local_rank];
  if (links_.resume(what.local_rank, {generation_, resume_environment(spec)})) {
    return;
  }
  log(Level::info, "rank " + std::to_string(spec.rank) + " cannot be told of the next generation: starting it again");
  auto& member = members_[what.local_rank];
  Descendants::kill_group(state_.workers[what.local_rank].pid);
  drop_streams(member);
  feed(ResumeFailed{what.local_rank});
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
  feed(Started{member.exit.local_rank, started.pid});
}

void Supervisor::start_failed(Member& member, int error, std::string const& why, std::string const& what) {
  member.exit.stderr_tail = why;
  member.exit.cause = what.empty() ? "" : place_of(what);
  feed(StartFailed{member.exit.local_rank, error});
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

// ---- workers forked from the warm Python ------------------------------------------------------------------------

void Supervisor::warm_up(WorkerSpec const& like, std::string const& modules) {
  imports_.like = like;
  imports_.automatic = modules == kWarmAuto;
  if (!imports_.automatic) {
    start_zygote(modules);
  } else if (auto const command = warm_command(like.argv); !command) {
    log(Level::warn, "--warm has no effect: " + command.error().context);
    imports_.like.argv.clear();
  }
}

void Supervisor::start_zygote(std::string const& modules) {
  auto const& like = imports_.like;
  auto begun = Zygote::start(io_, like.argv, like.environment, modules, *this);
  if (!begun) {
    log(Level::warn, "--warm has no effect: " + begun.error().context);
    return;
  }
  zygote_ = std::move(begun->zygote);
  zygote_end_.reset();
  zygote_pid_ = begun->pid;
  PumpStream said;
  said.fd = std::move(begun->output);
  said.to_stderr = true;
  said.prefix = like.prefix;
  tend(zygote_pid_, [weak = weak_from_this(), stream = pump_.add(std::move(said))] {
    if (auto const self = weak.lock()) {
      self->pump_.drain(stream, true, [](LastWords const& /*words*/) {});
      self->on_zygote_ended();
    }
  });
}

void Supervisor::on_zygote_ended() {
  zygote_pid_ = 0;
  zygote_->ended(zygote_end_.value_or(ExitStatus{}));
  if (std::exchange(imports_.restart, false)) {
    start_zygote(modules_of(imports_.wanted));
  }
}

// Reads the imports file of the first worker until it is there or the generation ends.
void Supervisor::watch_imports() {
  if (!imports_.like.argv.empty() && !members_.empty() && !members_.front().error_file.empty()) {
    imports_.timer.after(kLookForImports, [this] { read_imports(true); });
  }
}

void Supervisor::read_imports(bool may_start) {
  if (imports_.like.argv.empty() || members_.empty() || members_.front().error_file.empty()) {
    return;
  }
  auto imports = parse_imports(read_worker_file(imports_file(members_.front().error_file), kImportsBytes));
  if (imports.empty()) {
    return watch_imports();
  }
  imports_.timer.cancel();
  if (members_.front().forked) {
    auto const line = left_out_line(imports, imports_.automatic);
    if (!line.empty() && !std::exchange(imports_.warned, true)) {
      log(Level::warn, line);
    }
  } else if (may_start && imports_.automatic && imports_.wanted.empty() && !zygote_) {
    imports_.wanted = std::move(imports);
    start_zygote(modules_of(imports_.wanted));
  }
}

bool Supervisor::start_warm(WorkerSpec const& spec, int capacity_bytes) {
  if (!zygote_ || !zygote_->takes(spec.argv) || !spec.keep.empty()) {
    return false;  // a forked worker cannot inherit the descriptors in `keep`
  }
  forking_[spec.local_rank] = {spec, capacity_bytes, {}};
  zygote_->want(spec.local_rank);
  return true;
}

std::optional<WarmWorker> Supervisor::open_warm(std::uint32_t local_rank) {
  auto& warm = forking_.at(local_rank);
  auto opened = open_worker(warm.spec, warm.capacity_bytes);
  auto const found = find_worker_program(warm.spec);
  if (!opened || found.path.empty()) {
    forking_.erase(local_rank);
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

void Supervisor::on_forked(std::uint32_t local_rank, pid_t pid) {
  auto& member = members_.at(local_rank);
  member.forked = true;
  member.pending = std::move(forking_.extract(local_rank).mapped().streams);
  member.process.emplace(io_, pid);
  feed(Started{local_rank, pid});
  hand_to_pump(member);
}

void Supervisor::on_not_forked(std::uint32_t local_rank) {
  auto const warm = forking_.extract(local_rank);
  execute(warm.mapped().spec, members_.at(local_rank), warm.mapped().capacity_bytes);
  hand_to_pump(members_.at(local_rank));
  if (zygote_ && zygote_->frozen()) {
    freeze();
  }
  check_descendants();
}

void Supervisor::on_module_refused(std::string const& module) {
  if (imports_.automatic && ++imports_.refused <= kMostRefused) {
    imports_.wanted = without(std::move(imports_.wanted), module);
    imports_.restart = !imports_.wanted.empty();
    log(Level::info, "--warm=auto: the next warm Python leaves out " + printable(module, 80));
  }
}

void Supervisor::on_dropped(std::uint32_t local_rank) {
  forking_.erase(local_rank);
  start_failed(members_.at(local_rank), ECANCELED, "stopped before it was started", "");
}

}  // namespace cxxrun::launcher
