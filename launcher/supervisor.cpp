#include "launcher/supervisor.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <deque>
#include <fcntl.h>
#include <optional>
#include <stdexcept>
#include <unistd.h>
#include <utility>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include "launcher/descendants.hpp"
#include "launcher/log_pump.hpp"
#include "launcher/worker_group.hpp"
#include "launcher/worker_process.hpp"
#include "launcher/worker_start.hpp"
#include "launcher/worker_streams.hpp"
#include "src/core/time.hpp"
#include "src/os/children.hpp"
#include "src/os/log.hpp"
#include "src/os/process_info.hpp"
#include "src/os/signals.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kErrorFileBytes = std::size_t{64} * 1024;
constexpr std::chrono::seconds kLastSweep{5};
constexpr Millis kFreezeLimit{200};                // a process in an uninterruptible call stops when it returns
constexpr std::chrono::seconds kDrainDeadline{5};  // only a log's file system that hangs takes longer

// What the shell keeps of one worker; its life is in GroupState.
struct Member {
  std::optional<WorkerProcess> process;
  rendezvous::WorkerExit exit;
  std::string error_file;
  std::vector<PumpStream> pending;  // opened, not yet with the pump: added once every worker is started
  std::vector<std::uint64_t> streams;
  std::optional<std::uint64_t> stderr_stream;
  bool killed = false;            // by us
  bool died_before_kill = false;  // see Exited
};

// What is being collected between the last exit and `ended`.
struct Ending {
  std::uint64_t number = 0;  // counts endings: a drain that comes after its ending was cut short is nobody's
  std::size_t drains = 0;
  std::vector<std::string> unkillable;
};

std::int64_t unix_ms() {
  using std::chrono::system_clock;
  return std::chrono::duration_cast<Millis>(system_clock::now().time_since_epoch()).count();
}

os::SignalFd open_child_signals() {
  auto opened = os::SignalFd::open(os::make_sigset({SIGCHLD}));
  if (!opened) {
    throw std::runtime_error(opened.error().message());
  }
  return std::move(*opened);
}

}  // namespace

struct Supervisor::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& context, LogPump& log_pump, SupervisorHandlers callbacks)
      : io(context),
        pump(log_pump),
        handlers(std::move(callbacks)),
        child_signals(open_child_signals()),
        child_events(context, fcntl(child_signals.fd(), F_DUPFD_CLOEXEC, 3)),
        timer(context) {}

  // -- events --------------------------------------------------------------------------------------------------

  // One SIGCHLD may stand for many children: ask for all of them. The exit is taken by waitpid with WNOHANG alone;
  // a worker that a debugger holds is not reapable though dead, and must not block us.
  void watch_children() {
    child_events.async_wait(asio::posix::stream_descriptor::wait_read,
                            [weak = weak_from_this()](boost::system::error_code const& error) {
                              auto const self = weak.lock();
                              if (error || !self) {
                                return;
                              }
                              while (self->child_signals.read()) {
                              }
                              self->reap();
                              self->check_descendants();
                              self->watch_children();
                            });
  }

  void reap() {
    while (auto const pid = os::peek_ended()) {
      auto const worker = std::find_if(state.workers.begin(), state.workers.end(), [&](GroupWorker const& each) {
        return each.pid == *pid && each.life == GroupWorker::Life::alive;
      });
      if (worker == state.workers.end()) {
        if (auto const stranger = os::reap_any()) {
          descendants.reaped(stranger->pid);
        }
        continue;
      }
      auto const local_rank = worker->local_rank;
      auto const status = members[local_rank].process->reap();
      if (!status) {
        return;  // it is not reapable after all: the next SIGCHLD or timer asks again
      }
      descendants.reaped(*pid);
      happen(Exited{local_rank, *status, members[local_rank].died_before_kill});
    }
  }

  void check_descendants() {
    if (state.phase == GroupPhase::stopping || state.phase == GroupPhase::killing ||
        state.phase == GroupPhase::sweeping) {
      auto const alive = live_workers();
      if (!descendants.strangers(alive).empty()) {
        happen(DescendantsFound{});
      } else if (alive.empty()) {
        happen(DescendantsGone{});
      }
    }
  }

  void happen(GroupEvent const& event) {
    auto next = step(std::move(state), event, Clock::now());
    state = std::move(next.next);
    if (!next.reason.empty()) {
      log(Level::debug, "generation " + std::to_string(generation) + ": " + next.reason);
    }
    for (auto const& action : next.actions) {
      std::visit([this](auto const& what) { perform(what); }, action);
    }
  }

  // -- actions -------------------------------------------------------------------------------------------------

  void perform(SignalGroup const& what) {
    auto& member = members[what.local_rank];
    pid_t const pid = state.workers[what.local_rank].pid;
    if (what.signal == SIGKILL && !std::exchange(member.killed, true)) {
      member.died_before_kill = os::is_dying(pid);
    }
    descendants.signal_worker(pid, what.signal);
  }
  void perform(SignalDescendants const& what) { descendants.signal_strangers(live_workers(), what.signal); }
  void perform(ReportUnkillable const&) { ending.unkillable = descendants.abandon_all(); }

  void perform(ArmTimer const& what) {
    timer.expires_at(what.at);
    timer.async_wait([weak = weak_from_this()](boost::system::error_code const& error) {
      auto const self = weak.lock();
      if (!error && self) {
        self->reap();  // who has died in time is not killed late
        self->happen(Tick{});
        self->check_descendants();
      }
    });
  }

  void perform(ReportExit const& what) {
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

  void perform(ReportEnded const&) {
    ++ending.number;
    timer.expires_after(kDrainDeadline);
    timer.async_wait([weak = weak_from_this(), number = ending.number](boost::system::error_code const& error) {
      auto const self = weak.lock();
      if (!error && self && self->ending.number == number && self->ending.drains > 0) {
        log(Level::warn, "the last lines of a worker are missing: its log file takes too long");
        self->ending.drains = 1;
        self->drained();
      }
    });
    ending.drains = 1;  // our own hold, so that the count reaches zero once
    for (auto& member : members) {
      take_over_unkillable(member);
      for (auto const stream : member.streams) {
        ++ending.drains;
        drain(stream, member.exit.local_rank, member.stderr_stream == stream);
      }
    }
    drained();
  }

  // A worker that was given up on has had no exit to report; `ended` counts it as killed by us.
  void take_over_unkillable(Member& member) {
    auto const& worker = state.workers[member.exit.local_rank];
    member.exit.status = worker.status;
    member.exit.ours = worker.ours;
  }

  // The callback comes on the pump's thread, which must not own us even for a moment: it only posts.
  void drain(std::uint64_t stream, std::uint32_t local_rank, bool keep) {
    pump.drain(stream, true,
               [&context = io, weak = weak_from_this(), number = ending.number, local_rank, keep](std::string tail) {
                 asio::post(context, [weak, number, local_rank, keep, tail = std::move(tail)] {
                   if (auto const self = weak.lock();
                       self && self->ending.number == number && self->ending.drains > 0) {
                     if (keep) {
                       self->members[local_rank].exit.stderr_tail = tail;
                     }
                     self->drained();
                   }
                 });
               });
  }

  void drained() {
    if (--ending.drains > 0) {
      return;
    }
    std::vector<rendezvous::WorkerExit> exits;
    exits.reserve(members.size());
    for (auto& member : members) {
      if (!member.exit.status.ok() && !member.error_file.empty()) {
        member.exit.error_file = read_small_file(member.error_file, kErrorFileBytes);
      }
      exits.push_back(std::move(member.exit));
    }
    timer.cancel();
    members.clear();
    active = false;
    asio::post(io, [weak = weak_from_this(), number = generation, exits = std::move(exits),
                    unkillable = std::exchange(ending.unkillable, {})] {
      if (auto const self = weak.lock(); self && self->handlers.ended) {
        self->handlers.ended(number, exits, unkillable);
      }
    });
  }

  // -- starting ------------------------------------------------------------------------------------------------

  void start(std::uint64_t number, std::vector<WorkerSpec> const& workers) {
    generation = number;
    active = true;
    descendants.reset();
    members.clear();
    members.resize(workers.size());
    std::size_t pipes = 0;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      pipes += (needs_pipe(workers[i].out, false) ? 1U : 0U) + (needs_pipe(workers[i].err, true) ? 1U : 0U);
      members[i].exit.rank = workers[i].rank;
      members[i].exit.local_rank = static_cast<std::uint32_t>(i);
      members[i].error_file = workers[i].error_file;
    }
    happen(Begin{static_cast<std::uint32_t>(workers.size())});
    for (std::size_t i = 0; i < workers.size(); ++i) {
      start_one(workers[i], members[i], pipe_bytes(pipes));
    }
    for (auto& member : members) {  // after the last start: the pump's thread would compete with it
      hand_to_pump(member);
    }
    check_descendants();  // when none could be started the generation is over
  }

  void start_one(WorkerSpec const& spec, Member& member, int capacity_bytes) {
    auto started = start_worker(spec, capacity_bytes);
    if (started.pid == 0) {
      member.exit.stderr_tail = std::move(started.why);
      happen(StartFailed{member.exit.local_rank, started.error});
      return;
    }
    member.process.emplace(io, started.pid);
    member.pending = std::move(started.streams);
    happen(Started{member.exit.local_rank, started.pid});
  }

  void hand_to_pump(Member& member) {
    for (auto& stream : member.pending) {
      bool const tail = stream.keep_tail;
      member.streams.push_back(pump.add(std::move(stream)));
      if (tail) {
        member.stderr_stream = member.streams.back();
      }
    }
    member.pending.clear();
  }

  [[nodiscard]] std::vector<pid_t> live_workers() const {
    std::vector<pid_t> pids;
    for (auto const& worker : state.workers) {
      if (worker.life == GroupWorker::Life::alive) {
        pids.push_back(worker.pid);
      }
    }
    return pids;
  }

  asio::io_context& io;
  LogPump& pump;
  SupervisorHandlers handlers;
  os::SignalFd child_signals;
  asio::posix::stream_descriptor child_events;
  asio::basic_waitable_timer<Clock> timer;
  GroupState state;
  std::uint64_t generation = 0;
  bool active = false;  // from start until `ended` is posted
  std::vector<Member> members;
  Descendants descendants;
  Ending ending;
};

Supervisor::Supervisor(asio::io_context& io, LogPump& pump, SupervisorHandlers handlers)
    : impl_(std::make_shared<Impl>(io, pump, std::move(handlers))) {
  impl_->watch_children();
}

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
  impl_->happen(StopOrdered{order});
  impl_->check_descendants();
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
  forward(signal, served);
}

std::size_t Supervisor::forward(int signal, std::set<pid_t>& served) {
  std::size_t missing = 0;
  for (pid_t const worker : impl_->live_workers()) {
    if (!served.contains(worker) && forward_signal(worker, worker, signal)) {
      served.insert(worker);
    }
    missing += served.contains(worker) ? 0U : 1U;
  }
  return missing;
}

}  // namespace cxxrun::launcher
