#include "launcher/workers/supervisor.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "src/base/core/text.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/worker/page_view.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kLastSweep{5};
constexpr Millis kFreezeLimit{200};  // a process in an uninterruptible call stops only when it returns

std::int64_t unix_ms() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<Millis>(system_clock::now().time_since_epoch()).count();
}

bool lives(GroupWorker const& worker) {
  return worker.life == GroupWorker::Life::alive || worker.life == GroupWorker::Life::parked;
}

}  // namespace

Supervisor::Supervisor(asio::io_context& io, LogPump& pump, SupervisorInbox& inbox, std::string const& sockets)
    : io_(io),
      pump_(pump),
      inbox_(inbox),
      child_signals_(io,
                     [this](auto const& /*child*/) {
                       reap();
                       check_descendants();
                     }),
      timer_(io),
      drain_timer_(io),
      probe_timer_(io),
      links_(io, *this, sockets),
      environments_(io, state_, links_),
      imports_(io) {
  if (auto const watched = child_signals_.begin(os::make_sigset({SIGCHLD})); !watched) {
    throw std::runtime_error(watched.error().message());
  }
}

Supervisor::~Supervisor() {
  for (pid_t const worker : live_workers()) {
    kill(-worker, SIGKILL);
  }
  if (os::has_children()) {
    os::sweep_descendants(Clock::now() + kLastSweep, descendants_.abandoned());
  }
}

// ---- events -----------------------------------------------------------------------------------------------------

// One SIGCHLD may stand for many children, so this asks for all of them. Exits are taken with WNOHANG only: a dead
// worker that a debugger holds cannot be reaped and must not block us. Each exit is taken by the pid that was found,
// because another child, possibly a worker, may have ended since.
void Supervisor::reap() {
  deaths_.refresh();
  while (auto const ended = os::peek_ended()) {
    pid_t const pid = ended->pid;
    auto const local_rank = who(pid);
    auto const status = local_rank ? members_[*local_rank].process->reap() : os::reap(pid);
    if (!status) {
      return;  // not reapable after all: the next SIGCHLD or timer tries again
    }
    descendants_.reaped(pid);
    if (pid == zygote_pid_) {
      zygote_end_ = *status;
    }
    if (local_rank) {
      bool const outlived = descendants_.have_outlived(pid, *status);
      members_[*local_rank].peak = ended->peak;
      members_[*local_rank].busy = ended->busy;
      feed(Exited{*local_rank, *status, members_[*local_rank].died_before_kill, outlived});
    } else if (auto child = tended_.extract(pid)) {
      asio::post(io_, std::move(child.mapped()));
    } else {
      note_killed(pid, *status);
    }
  }
}

void Supervisor::check_descendants() {
  for (std::uint32_t i = 0; i < state_.workers.size(); ++i) {
    if (state_.workers[i].life == GroupWorker::Life::outlived && !descendants_.programs_run(state_.workers[i].pid)) {
      feed(ProgramEnded{i});
    }
  }
  if (state_.phase == GroupPhase::stopping || state_.phase == GroupPhase::killing ||
      state_.phase == GroupPhase::sweeping) {
    if (!descendants_.strangers(live_workers(), spared()).empty()) {
      feed(DescendantsFound{});
    } else if (std::ranges::none_of(state_.workers, [](auto const& worker) { return worker.runs(); })) {
      feed(DescendantsGone{});
    }
  }
}

void Supervisor::say(Line const& line) const {
  log(line.level, "generation " + std::to_string(generation_) + ": " + line.text);
}

pid_t Supervisor::pid_of_rank(std::uint32_t rank) const {
  auto const it = std::ranges::find_if(members_, [&](Member const& each) { return each.exit.rank == rank; });
  return it == members_.end() ? 0 : pid_of(it->exit.local_rank);
}

void Supervisor::on_survivor(std::uint32_t local_rank, bool shrinks) {
  feed(Survives{local_rank, shrinks});
  if (shrinks) {
    inbox_.on_shrinking_worker();
  }
}

void Supervisor::on_parked(std::uint32_t local_rank, std::string const& why) {
  if (local_rank >= members_.size()) {
    return;  // the worker and its generation have ended
  }
  log(Level::debug,
      "rank " + std::to_string(members_[local_rank].exit.rank) + " is waiting for the next generation: " + why);
  feed(HasParked{local_rank});
  report_loss(local_rank);
  check_descendants();
}

Result<wire::RailVerdict> Supervisor::prove(std::uint32_t local_rank, wire::RailClaim const& claim) {
  return inbox_.prove(generation_, members_[local_rank].exit.rank, claim);  // members_ has every living worker
}

std::optional<worker::Loss> Supervisor::loss_of(std::uint32_t local_rank) const {
  auto const* const page = links_.page(local_rank);
  return page == nullptr ? std::nullopt : worker::read_loss(*page, generation_);
}

void Supervisor::report_loss(std::uint32_t local_rank) {
  auto const lost = loss_of(local_rank);
  if (!lost && state_.phase != GroupPhase::running) {
    return;
  }
  asio::post(io_, [weak = weak_from_this(), number = generation_,
                   named = rendezvous::Named{members_[local_rank].exit.rank, lost.value_or(worker::kNamesNobody)}] {
    if (auto const self = weak.lock()) {
      self->inbox_.on_worker_parked(number, named);
    }
  });
}

std::optional<std::uint32_t> Supervisor::who(pid_t pid) const {
  auto const worker =
      std::ranges::find_if(state_.workers, [&](GroupWorker const& each) { return each.pid == pid && lives(each); });
  return worker == state_.workers.end() ? std::nullopt : std::optional(worker->local_rank);
}

std::vector<pid_t> Supervisor::live_workers() const {
  std::vector<pid_t> pids;
  for (auto const& worker : state_.workers) {
    if (lives(worker)) {
      pids.push_back(worker.pid);
    }
  }
  return pids;
}

Descendants::Spares Supervisor::spared() const {
  return [this](pid_t session) { return spares(state_, session); };
}

// ---- actions ----------------------------------------------------------------------------------------------------

void Supervisor::perform(KillGroup const& what) {
  auto& member = members_[what.local_rank];
  pid_t const pid = state_.workers[what.local_rank].pid;
  if (!std::exchange(member.killed, true)) {
    member.died_before_kill = os::is_dying(pid);
  }
  Descendants::kill_group(pid);
}

void Supervisor::perform(SignalDescendants const& what) {
  if (state_.phase == GroupPhase::sweeping) {
    for (pid_t const stranger : descendants_.strangers(live_workers(), spared())) {
      note_left(stranger);
    }
  }
  descendants_.signal_strangers(live_workers(), spared(), what.signal);
}

// Notes the process and its descendants, which become children of this process when it dies. A process that lost its
// worker to a signal of ours, such as the command of a shell, was not left behind by the worker.
void Supervisor::note_left(pid_t pid) {
  std::string const proc = "/proc/" + std::to_string(pid);
  auto const stat = os::read_stat(pid);
  if (!stat || stat->state == 'Z' || stat->state == 'X') {
    return;  // it has ended by itself
  }
  auto const rank = rank_in(os::read_text(proc + "/environ"));
  auto const whose = std::ranges::find_if(members_, [&, session = getsid(pid)](Member const& each) {
    return each.exit.pid == session || each.exit.rank == rank;
  });
  bool const cut_off =
      whose != members_.end() && whose->exit.ours && whose->exit.status.kind == ExitStatus::Kind::signalled;
  if (!cut_off) {
    auto const known = whose == members_.end() ? std::nullopt : std::optional(whose->exit.rank);
    left_.try_emplace(pid, LeftBehind{pid, program_name(os::read_text(proc + "/cmdline"), stat->comm), known});
  }
  for (pid_t const child : os::children_of(pid)) {
    note_left(child);
  }
}

void Supervisor::note_killed(pid_t pid, ExitStatus const& status) {
  auto left = left_.extract(pid);
  bool const by_us =
      status.kind == ExitStatus::Kind::signalled && (status.value == SIGKILL || status.value == state_.signal);
  if (left && by_us) {
    killed_.push_back(std::move(left.mapped()));
  }
}

void Supervisor::perform(ArmTimer const& what) {
  timer_.at(what.at, [this] {
    reap();  // a worker that has died by now ended in time
    feed(Tick{});
    check_descendants();
  });
}

void Supervisor::perform(ReportFilled const& what) {
  asio::post(io_, [weak = weak_from_this(), number = generation_, whole = what.whole] {
    if (auto const self = weak.lock()) {
      self->inbox_.on_filled(number, whole);
    }
  });
}

void Supervisor::perform(ReportExit const& what) {
  auto& exit = members_[what.local_rank].exit;
  auto const& worker = state_.workers[what.local_rank];
  exit.pid = worker.pid;
  exit.status = worker.status;
  exit.ours = worker.ours;
  if (exit.ours && exit.status == ExitStatus::signalled(SIGKILL) && grace_ > Millis{0} && grace_ < Millis::max()) {
    auto const& place = members_[what.local_rank].place;
    exit.cause = "had not ended " + seconds_text(grace_) + " after " + signal_name(state_.signal) +
                 (place.empty() ? "" : "; it stood at " + place);
  }
  exit.wall_ms = unix_ms();
  exit.lost = loss_of(what.local_rank);
  exit.role = rendezvous::role_of(exit, exit.role);
  if (!exit.status.ok() && !exit.ours) {
    auto const dead = dead_workers();
    deaths_.explain(dead[what.local_rank], dead, inbox_.parent_kills());
  }
  auto reported = exit;
  reported.stderr_tail.clear();
  asio::post(io_, [weak = weak_from_this(), number = generation_, reported = std::move(reported)] {
    if (auto const self = weak.lock()) {
      self->inbox_.on_worker_exit(number, reported);
    }
  });
}

std::size_t Supervisor::forward(int signal, std::set<pid_t>& served) const {
  std::size_t missing = 0;
  for (pid_t const worker : live_workers()) {
    if (!served.contains(worker) && forward_signal(worker, worker, signal)) {
      served.insert(worker);
    }
    missing += served.contains(worker) ? 0U : 1U;
  }
  return missing;
}

// ---- requests of the agent --------------------------------------------------------------------------------------

void Supervisor::stop(StopOrder const& order) {
  reap();  // a death before the order is not due to it
  active_ = active_ || (state_.phase == GroupPhase::parked && !order.park);
  environments_.end();
  grace_ = std::min(grace_, order.grace);
  feed(StopOrdered{order});
  if (zygote_) {
    zygote_->cancel();
  }
  check_descendants();
}

void Supervisor::kill_worker(std::uint32_t local_rank, std::string const& why) {
  reap();  // a death before the order is not due to it
  if (pid_of(local_rank) != 0 && state_.phase == GroupPhase::running) {
    members_[local_rank].exit.hung = why;
    feed(KillOrdered{local_rank});
  }
}

std::optional<rendezvous::WorkerExit> Supervisor::end_of(std::uint32_t local_rank) const {
  auto const& workers = state_.workers;
  bool const ended = local_rank < workers.size() && workers[local_rank].life == GroupWorker::Life::ended;
  return ended && local_rank < members_.size() ? std::optional(members_[local_rank].exit) : std::nullopt;
}

// The registered process need not be our child, so its pid may have been reused. That does no harm as long as the new
// process was started by a worker, too.
pid_t Supervisor::program_of(std::uint32_t local_rank) const {
  pid_t const worker = pid_of(local_rank);
  pid_t const program = links_.pid(local_rank);
  if (worker == 0 || program == 0) {
    return worker;
  }
  if (getsid(program) == worker) {
    return program;
  }
  auto const ancestors = os::ancestors_of(program);
  return std::ranges::find(ancestors, getpid()) != ancestors.end() ? program : worker;
}

void Supervisor::tend(pid_t child, std::function<void()> ended) {
  descendants_.tend(child);
  tended_.emplace(child, std::move(ended));
}

void Supervisor::freeze() {
  if (zygote_) {
    zygote_->freeze(true);
  }
  auto const until = Clock::now() + kFreezeLimit;
  while (os::signal_descendants(getpid(), SIGSTOP) > 0 && Clock::now() < until) {
    // again, for processes that were forked in the meantime
  }
}

void Supervisor::thaw() {
  if (zygote_) {
    zygote_->freeze(false);
  }
  os::signal_descendants(getpid(), SIGCONT);
}

void Supervisor::forward(int signal) {
  std::set<pid_t> served;
  forward(signal, served);
}

std::size_t Supervisor::ask_for_checkpoint(int signal, std::set<pid_t>& served) {
  for (auto const& worker : state_.workers) {
    if (lives(worker) && !asked_.contains(worker.pid) && links_.checkpoint(worker.local_rank)) {
      asked_.insert(worker.pid);
    }
  }
  return forward(signal, served);
}

std::size_t Supervisor::ask_for_checkpoint() {
  auto const& workers = state_.workers;
  return static_cast<std::size_t>(std::ranges::count_if(
      workers, [this](auto const& worker) { return lives(worker) && links_.checkpoint(worker.local_rank); }));
}

}  // namespace cxxrun::launcher
