#include "launcher/workers/supervisor_impl.hpp"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "src/os/children.hpp"
#include "src/os/log.hpp"
#include "src/os/process_info.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds kLastSweep{5};
constexpr Millis kFreezeLimit{200};  // a process in an uninterruptible call stops when it returns

std::int64_t unix_ms() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<Millis>(system_clock::now().time_since_epoch()).count();
}

bool lives(GroupWorker const& worker) {
  return worker.life == GroupWorker::Life::alive || worker.life == GroupWorker::Life::parked;
}

}  // namespace

Supervisor::Impl::Impl(asio::io_context& context, LogPump& log_pump, SupervisorHandlers callbacks,
                       std::string const& sockets)
    : io(context),
      pump(log_pump),
      handlers(std::move(callbacks)),
      child_signals(context,
                    [this](auto const& /*child*/) {
                      reap();
                      check_descendants();
                    }),
      timer(context),
      links(context, link_handlers(), sockets) {
  if (auto const watched = child_signals.begin(os::make_sigset({SIGCHLD})); !watched) {
    throw std::runtime_error(watched.error().message());
  }
}

// ---- events -----------------------------------------------------------------------------------------------------

// One SIGCHLD may stand for many children: ask for all of them. The exit is taken by waitpid with WNOHANG alone;
// a worker that a debugger holds is not reapable though dead, and must not block us. Always of the very child that was
// found: another may end meanwhile, and be a worker.
void Supervisor::Impl::reap() {
  while (auto const pid = os::peek_ended()) {
    auto const local_rank = who(*pid);
    auto const status = local_rank ? members[*local_rank].process->reap() : os::reap(*pid);
    if (!status) {
      return;  // it is not reapable after all: the next SIGCHLD or timer asks again
    }
    descendants.reaped(*pid);
    if (local_rank) {
      happen(Exited{*local_rank, *status, members[*local_rank].died_before_kill});
    } else if (auto child = tended.extract(*pid)) {
      asio::post(io, std::move(child.mapped()));
    }
  }
}

void Supervisor::Impl::check_descendants() {
  if (state.phase == GroupPhase::stopping || state.phase == GroupPhase::killing ||
      state.phase == GroupPhase::sweeping) {
    if (!descendants.strangers(live_workers(), kept_workers()).empty()) {
      happen(DescendantsFound{});
    } else if (std::none_of(state.workers.begin(), state.workers.end(),
                            [](auto const& worker) { return worker.life == GroupWorker::Life::alive; })) {
      happen(DescendantsGone{});
    }
  }
}

void Supervisor::Impl::say(Line const& line) const {
  log(line.level, "generation " + std::to_string(generation) + ": " + line.text);
}

WorkerLinks::Handlers Supervisor::Impl::link_handlers() {  // the links go with us: none outlives this object
  WorkerLinks::Handlers on;
  on.who = [this](pid_t pid) { return who(pid); };
  on.survives = [this](std::uint32_t local_rank) { happen(Survives{local_rank}); };
  on.parked = [this](std::uint32_t local_rank, std::string const& why) {
    if (local_rank >= members.size()) {
      return;  // it has ended, and so has its generation
    }
    log(Level::debug,
        "rank " + std::to_string(members[local_rank].exit.rank) + " waits for the next generation: " + why);
    happen(HasParked{local_rank});
    check_descendants();
  };
  if (handlers.prove) {
    on.prove = [this](std::uint32_t local_rank, wire::RailClaim const& claim) {
      return handlers.prove(generation, members[local_rank].exit.rank, claim);  // it lives, so it is a member
    };
  }
  return on;
}

std::optional<std::uint32_t> Supervisor::Impl::who(pid_t pid) const {
  auto const worker = std::find_if(state.workers.begin(), state.workers.end(),
                                   [&](GroupWorker const& each) { return each.pid == pid && lives(each); });
  return worker == state.workers.end() ? std::nullopt : std::optional(worker->local_rank);
}

std::vector<pid_t> Supervisor::Impl::live_workers() const {
  std::vector<pid_t> pids;
  for (auto const& worker : state.workers) {
    if (lives(worker)) {
      pids.push_back(worker.pid);
    }
  }
  return pids;
}

std::vector<pid_t> Supervisor::Impl::kept_workers() const {
  std::vector<pid_t> pids;
  for (auto const& worker : state.workers) {
    if (keeps(state, worker)) {
      pids.push_back(worker.pid);
    }
  }
  return pids;
}

// ---- actions ----------------------------------------------------------------------------------------------------

void Supervisor::Impl::perform(SignalGroup const& what) {
  auto& member = members[what.local_rank];
  pid_t const pid = state.workers[what.local_rank].pid;
  if (what.signal == SIGKILL && !std::exchange(member.killed, true)) {
    member.died_before_kill = os::is_dying(pid);
  }
  descendants.signal_worker(pid, what.signal);
}

void Supervisor::Impl::perform(ArmTimer const& what) {
  timer.at(what.at, [this] {
    reap();  // who has died in time is not killed late
    happen(Tick{});
    check_descendants();
  });
}

void Supervisor::Impl::perform(ReportExit const& what) {
  auto& exit = members[what.local_rank].exit;
  auto const& worker = state.workers[what.local_rank];
  exit.pid = worker.pid;
  exit.status = worker.status;
  exit.ours = worker.ours;
  exit.wall_ms = unix_ms();
  auto reported = exit;
  reported.stderr_tail.clear();
  asio::post(io, [weak = weak_from_this(), number = generation, reported = std::move(reported)] {
    if (auto const self = weak.lock(); self && self->handlers.exited) {
      self->handlers.exited(number, reported);
    }
  });
}

std::size_t Supervisor::Impl::forward(int signal, std::set<pid_t>& served) const {
  std::size_t missing = 0;
  for (pid_t const worker : live_workers()) {
    if (!served.contains(worker) && forward_signal(worker, worker, signal)) {
      served.insert(worker);
    }
    missing += served.contains(worker) ? 0U : 1U;
  }
  return missing;
}

// ---- what the agent asks ----------------------------------------------------------------------------------------

Supervisor::Supervisor(asio::io_context& io, LogPump& pump, SupervisorHandlers handlers, std::string const& sockets)
    : impl_(std::make_shared<Impl>(io, pump, std::move(handlers), sockets)) {}

Supervisor::~Supervisor() {
  for (pid_t const worker : impl_->live_workers()) {
    kill(-worker, SIGKILL);
  }
  if (os::has_children()) {
    os::sweep_descendants(Clock::now() + kLastSweep, impl_->descendants.abandoned());
  }
}

void Supervisor::start(std::uint64_t generation, std::vector<WorkerSpec> const& workers) {
  if (impl_->active) {
    log(Level::error, "generation " + std::to_string(generation) + " is not started: generation " +
                          std::to_string(impl_->generation) + " has not ended");
    return;
  }
  impl_->start(generation, workers);
}

void Supervisor::stop(StopOrder const& order) {
  impl_->reap();  // who died before the order did not die of it
  impl_->active = impl_->active || (impl_->state.phase == GroupPhase::parked && !order.park);
  impl_->happen(StopOrdered{order});
  impl_->check_descendants();
}

void Supervisor::kill_worker(std::uint32_t local_rank, std::string const& why) {
  impl_->reap();  // who died before did not die of it
  if (pid_of(local_rank) != 0 && impl_->state.phase == GroupPhase::running) {
    impl_->members[local_rank].exit.hung = why;
    impl_->happen(KillOrdered{local_rank});
  }
}

pid_t Supervisor::pid_of(std::uint32_t local_rank) const {
  auto const& workers = impl_->state.workers;
  bool const alive = local_rank < workers.size() && workers[local_rank].life == GroupWorker::Life::alive;
  return alive ? workers[local_rank].pid : 0;
}

void Supervisor::tend(pid_t child, std::function<void()> ended) {
  impl_->descendants.tend(child);
  impl_->tended.emplace(child, std::move(ended));
}

void Supervisor::freeze() {
  auto const until = Clock::now() + kFreezeLimit;
  while (os::signal_descendants(getpid(), SIGSTOP) > 0 && Clock::now() < until) {
  }
}

void Supervisor::thaw() {
  os::signal_descendants(getpid(), SIGCONT);
}

void Supervisor::forward(int signal) {
  std::set<pid_t> served;
  impl_->forward(signal, served);
}

std::size_t Supervisor::ask_for_checkpoint(int signal, std::set<pid_t>& served) {
  for (auto const& worker : impl_->state.workers) {
    if (lives(worker) && !impl_->asked.contains(worker.pid) && impl_->links.checkpoint(worker.local_rank)) {
      impl_->asked.insert(worker.pid);
    }
  }
  return impl_->forward(signal, served);
}

std::string Supervisor::socket() const {
  return impl_->links.name();
}

worker::ControlPage const* Supervisor::page(std::uint32_t local_rank) const {
  return impl_->links.page(local_rank);
}

}  // namespace cxxrun::launcher
