// Supervisor: starts, watches, signals and reaps the workers of one agent. Shell of worker_group.cpp, which decides.
//
// All members must be called from the thread that runs the io_context. That must be the process's main thread, because
// PDEATHSIG follows the forking thread. No other part of the process may have children unless it hands them to tend():
// any other child that is not a worker counts as an escaped descendant of a worker and is signalled, killed and reaped.
// SIGCHLD must be blocked in every thread (run_under_parent does that).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/process/v2/process.hpp>

#include "launcher/logs/log_pump.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "launcher/warm/warm_command.hpp"
#include "launcher/warm/zygote.hpp"
#include "launcher/workers/death_watch.hpp"
#include "launcher/workers/descendants.hpp"
#include "launcher/workers/environment_watch.hpp"
#include "launcher/workers/worker_group.hpp"
#include "launcher/workers/worker_links.hpp"
#include "launcher/workers/worker_processes.hpp"
#include "rendezvous/values/progress.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/os/children.hpp"
#include "src/base/os/signals.hpp"
#include "src/base/os/state_machine.hpp"
#include "src/base/os/timer.hpp"
#include "src/base/wire/rail_protocol.hpp"

namespace cxxrun::launcher {

/// The process of a worker, from its start until its exit is taken. Not thread-safe.
///
/// Boost.Process terminates a process that it still holds when it is destroyed, and waits for it. Nothing in the agent
/// may block on a process, so this class detaches first.
class WorkerProcess {
 public:
  WorkerProcess(boost::asio::io_context& io, pid_t pid) : pid_(pid) {
    try {
      process_.emplace(io.get_executor(), pid);
    } catch (boost::system::system_error const&) {
      // No pidfd (Linux before 5.3, or no descriptor left): the worker runs, and its exit is taken by pid.
    }
  }
  WorkerProcess(WorkerProcess&&) = default;
  WorkerProcess& operator=(WorkerProcess&&) = delete;
  WorkerProcess(WorkerProcess const&) = delete;
  WorkerProcess& operator=(WorkerProcess const&) = delete;
  ~WorkerProcess() {
    if (process_) {
      process_->detach();
    }
  }

  /// Takes the exit of a process that has ended; never blocks. Uses the native exit code, which is the wait status:
  /// exit_code() is 9 for "exit 9" and for "killed by signal 9".
  std::optional<ExitStatus> reap() {
    if (!process_) {
      return os::reap(pid_);
    }
    boost::system::error_code error;
    if (process_->running(error) || error) {
      return std::nullopt;
    }
    return ExitStatus::from_wait(process_->native_exit_code());
  }

 private:
  pid_t pid_;
  std::optional<boost::process::v2::process> process_;
};

/// What a Supervisor tells and asks the one that has it: the Agent. Called on the io_context's thread; events never
/// come from inside a call into the Supervisor.
struct SupervisorInbox {
  /// One worker has ended. `exit.stderr_tail` and `error_file` are filled only in on_generation_ended().
  virtual void on_worker_exit(std::uint64_t generation, rendezvous::WorkerExit exit) = 0;
  /// Every worker and every descendant of the generation is reaped, and all output is written.
  /// `waiting`: some workers have parked instead; they are not in `exits`. The event then comes once more, without
  /// exits, when these have been stopped. `unkillable`: one line for each process that survived SIGKILL. `lacks`: the
  /// other nodes need not wait until the workers that have ended are started again (fill()).
  virtual void on_generation_ended(std::uint64_t generation, std::vector<rendezvous::WorkerExit> exits,
                                   std::vector<std::string> unkillable, bool waiting, bool lacks) = 0;
  /// The end of fill(). `whole`: all workers wait now; false: one of them has ended.
  virtual void on_filled(std::uint64_t generation, bool whole) = 0;
  /// A worker has said that other nodes may go on without its node.
  virtual void on_shrinking_worker() {}
  /// A worker has parked; `named` has the peer that its Communicator gave up.
  virtual void on_worker_parked(std::uint64_t generation, rendezvous::Named named) = 0;
  /// A process of this user, worker or not, asks about the job. The callee owns the connection.
  virtual void on_question(os::UniqueFd /*connection*/, std::string const& /*question*/) {}
  /// The agent's verdict on a connection between the worker of this rank and a rank of another node. By default the
  /// agent has no key. Errors: refused.
  virtual Result<wire::RailVerdict> prove(std::uint64_t /*generation*/, std::uint32_t /*rank*/,
                                          wire::RailClaim const& /*claim*/) {
    return fail(Errc::refused, "this agent proves nothing (--auth none)");
  }
  /// How often our parent process has killed this node's workers because their lease had run out.
  [[nodiscard]] virtual std::uint32_t parent_kills() const { return 0; }
};

/// Owned by a shared_ptr: functions posted to the io_context hold it weakly.
class Supervisor final : public std::enable_shared_from_this<Supervisor>,
                         private WorkerLinksInbox,
                         private ZygoteInbox {
 public:
  /// `io`, `pump` and `inbox` outlive the Supervisor, and the pump is finished before `io` is destroyed, because the
  /// pump's thread posts there. While a Supervisor exists, io.run() does not return by itself. `sockets`: the directory
  /// of socket(). Throws std::runtime_error when no descriptor is left.
  Supervisor(boost::asio::io_context& io, LogPump& pump, SupervisorInbox& inbox, std::string const& sockets = "");
  ~Supervisor();  ///< kills and reaps all children (blocks, at most 5 s); the inbox is not called any more
  Supervisor(Supervisor const&) = delete;
  Supervisor& operator=(Supervisor const&) = delete;

  /// Starts the workers of a generation, or resumes parked ones (docs/design/survival.md). A worker that cannot be
  /// started is reported by on_worker_exit() with ExitStatus::not_started (its stderr_tail in on_generation_ended()
  /// says why); stopping the others is up to the caller. Refused with a log line while a generation has not ended.
  /// Blocks for about 0.2 ms per worker. REQUIRES: workers[i].local_rank is i.
  void start(std::uint64_t generation, std::vector<WorkerSpec> const& workers);
  /// Starts again the workers of the last generation that have ended. They belong to no generation and wait like parked
  /// ones; on_filled() follows once. The next start() resumes the workers that wait by then.
  void fill(std::vector<WorkerSpec> const& workers);
  /// Starts the warm Python, from which workers like `like` are forked from now on (docs/use/warm.md). Such workers run
  /// some time after start() has returned; when forking fails they are executed instead. Call it at most once. With
  /// kWarmAuto it starts when the first workers have reported what they import.
  void warm_up(WorkerSpec const& like, std::string const& modules);
  /// Begins to stop the running generation. Does nothing when nothing runs. During a stop, a shorter grace shortens it,
  /// and grace 0 kills at once. An order without `park` stops waiting workers, too; on_generation_ended() follows even
  /// if they have died in the meantime.
  void stop(StopOrder const& order);
  /// SIGKILL for one worker of a generation that is not being stopped. Its death is an ordinary failure; its exit has
  /// `why` as `hung`. Does nothing when the worker has ended or is being stopped.
  void kill_worker(std::uint32_t local_rank, std::string const& why);
  /// Remembers what the worker is executing, for its exit if it has to be killed: "train.py:33 in load"; "" = unknown.
  void stands_at(std::uint32_t local_rank, std::string place) { members_[local_rank].place = std::move(place); }
  /// Asks the worker to give up what it waits for (worker::ControlPage::asked). Does nothing without a page.
  void ask_to_give_up(std::uint32_t local_rank) { links_.ask_to_give_up(local_rank); }
  /// The exit of a worker of the running generation; nothing when it has not ended.
  [[nodiscard]] std::optional<rendezvous::WorkerExit> end_of(std::uint32_t local_rank) const;
  /// The worker's process; 0 when there is none.
  [[nodiscard]] pid_t pid_of(std::uint32_t local_rank) const { return worker_pid(state_, local_rank); }
  /// The process of the worker that trains: the registered one, which a wrapper script may have started; pid_of() when
  /// none is registered.
  [[nodiscard]] pid_t program_of(std::uint32_t local_rank) const;
  /// Takes over a child that this process has just started and that is not a worker's: it is reaped, but neither
  /// signalled nor waited for. `ended` is called once, on the io_context's thread.
  void tend(pid_t child, std::function<void()> ended);
  /// Does not wait for such a child at the end, either: it may hang in the kernel. It dies with this process.
  void leave(pid_t child) { descendants_.abandon(child); }
  /// Stops every worker and descendant with SIGSTOP; thaw() continues them, and so does a stop order.
  void freeze();
  void thaw();
  /// Passes a signal to each worker that catches it (SigCgt in /proc/PID/status), else to the nearest descendants in
  /// its session that do. So a program behind a shell script gets it, too.
  void forward(int signal);
  /// Forwards the signal to the workers that are not in `served` and adds those that got it. Returns how many did not.
  /// Workers with a page are asked there as well, once in a generation.
  std::size_t ask_for_checkpoint(int signal, std::set<pid_t>& served);
  /// Asks the workers with a page there, and returns how many have one.
  std::size_t ask_for_checkpoint();

  /// The socket where workers register: CXXRUN_AGENT. "" when no descriptor was left.
  [[nodiscard]] std::string socket() const { return links_.name(); }
  /// The page of a registered worker, valid after its death until another process takes its place; null: none has
  /// registered.
  [[nodiscard]] worker::ControlPage const* page(std::uint32_t local_rank) const { return links_.page(local_rank); }

 private:
  friend os::Machine<GroupState, GroupEvent>;

  // The shell's part of one worker; its life is in GroupState. A resumed process keeps its Member.
  struct Member {
    std::optional<WorkerProcess> process;
    rendezvous::WorkerExit exit;
    std::string error_file;
    std::vector<std::string> paths;   // files that it needs or writes to
    std::uint64_t peak = 0;           // see DeadWorker
    Millis busy{0};                   // see DeadWorker
    bool has_stdin = false;           // see DeadWorker
    std::vector<PumpStream> pending;  // opened; given to the pump once every worker is started
    std::vector<std::uint64_t> streams;
    std::optional<std::uint64_t> stderr_stream;
    std::string place;              // what it was executing shortly before it had to be killed
    bool killed = false;            // by us
    bool died_before_kill = false;  // see Exited
    bool has_parked = false;        // when its generation ended: it has no exit there, also if it is stopped later
    bool forked = false;            // from the warm Python
  };

  // The results collected between the last exit and on_generation_ended(). Waiting workers may be stopped meanwhile:
  // then it is called once, when these have ended, too.
  struct Ending {
    std::uint64_t number = 0;  // counts endings, to recognise a drain or probe that belongs to an earlier one
    bool due = false;          // on_generation_ended() has not been posted
    std::size_t drains = 0;    // streams that are not drained yet
    std::vector<std::string> unkillable;
    std::optional<os::PathProbe> probe;
    std::vector<std::string> probed;  // paths of the probe
  };

  // -- supervisor.cpp: events and actions ----------------------------------------------------------------------

  void reap();
  void check_descendants();
  void feed(GroupEvent event) { machine_.feed(event, *this); }
  [[nodiscard]] GroupPolicy const& policy() const { return group_policy_; }
  void say(Line const& line) const;
  static void stepped() {}
  void perform(AskWorker const& what) { descendants_.ask(state_.workers[what.local_rank].pid, what.signal); }
  void perform(KillGroup const& what);
  void perform(TellOver const& /*what*/) { links_.over(); }
  void perform(TellEnds const& /*what*/) { links_.ends(); }
  static void perform(EndSurplus const& what) { Descendants::kill_group(what.pid); }
  void perform(SignalDescendants const& what);
  void note_left(pid_t pid);
  void note_killed(pid_t pid, ExitStatus const& status);
  void perform(ArmTimer const& what);
  void perform(ReportExit const& what);
  void perform(ReportFilled const& what);
  void perform(ReportUnkillable const& /*what*/);
  /// All living workers, parked or not.
  [[nodiscard]] std::vector<pid_t> live_workers() const;
  [[nodiscard]] Descendants::Spares spared() const;
  [[nodiscard]] std::optional<worker::Loss> loss_of(std::uint32_t local_rank) const;
  void report_loss(std::uint32_t local_rank);
  std::size_t forward(int signal, std::set<pid_t>& served) const;

  // -- supervisor.cpp: of the workers' connections ---------------------------------------------------------------

  /// The local rank of a living worker, parked or not.
  [[nodiscard]] std::optional<std::uint32_t> who(pid_t pid) const override;
  [[nodiscard]] pid_t pid_of_rank(std::uint32_t rank) const override;
  void on_survivor(std::uint32_t local_rank, bool shrinks) override;
  void on_parked(std::uint32_t local_rank, std::string const& why) override;
  Result<wire::RailVerdict> prove(std::uint32_t local_rank, wire::RailClaim const& claim) override;
  void on_question(os::UniqueFd connection, std::string const& question) override {
    inbox_.on_question(std::move(connection), question);
  }

  // -- supervisor_end.cpp: from the last exit of a generation to on_generation_ended() ---------------------------

  void perform(ReportEnded const& what);
  void drain(std::uint64_t stream, std::uint32_t local_rank, bool is_stderr);
  void on_drained();
  [[nodiscard]] std::vector<DeadWorker> dead_workers();
  bool start_probe();
  void on_probe_ended(std::uint64_t number);
  void report_ended();

  // -- supervisor_start.cpp ------------------------------------------------------------------------------------

  void prepare_members(std::vector<WorkerSpec> const& workers);
  void start_missing(std::vector<WorkerSpec> const& workers);
  void start_one(WorkerSpec const& spec, Member& member, int capacity_bytes);
  void execute(WorkerSpec const& spec, Member& member, int capacity_bytes);
  void start_failed(Member& member, int error, std::string const& why, std::string const& what);
  void perform(ResumeWorker const& what);
  void hand_to_pump(Member& member);
  void drop_streams(Member& member);

  // -- supervisor_start.cpp: workers forked from the warm Python -----------------------------------------------

  // A worker whose fork is under way.
  struct PendingFork {
    WorkerSpec spec;
    int capacity_bytes = 0;
    std::vector<PumpStream> streams;
  };
  bool start_warm(WorkerSpec const& spec, int capacity_bytes);
  std::optional<WarmWorker> open_warm(std::uint32_t local_rank) override;
  void on_forked(std::uint32_t local_rank, pid_t pid) override;
  void on_not_forked(std::uint32_t local_rank) override;
  void on_module_refused(std::string const& module) override;
  void on_dropped(std::uint32_t local_rank) override;
  void start_zygote(std::string const& modules);
  void on_zygote_ended();
  void watch_imports();
  void read_imports(bool may_start);

  boost::asio::io_context& io_;
  LogPump& pump_;
  SupervisorInbox& inbox_;
  os::SignalWatch child_signals_;
  os::Timer timer_;  // of the state machine
  os::Timer drain_timer_;
  os::Timer probe_timer_;
  // step(): worker_group.cpp
  os::Machine<GroupState, GroupEvent> machine_;
  GroupState& state_ = machine_.state;
  GroupPolicy group_policy_;
  std::uint64_t generation_ = 0;
  // From start() until on_generation_ended() is posted, and again while waiting workers are stopped.
  bool active_ = false;
  bool reported_ = false;         // the generation's exits have been passed to on_generation_ended()
  Millis grace_ = Millis::max();  // of the generation's stop
  std::vector<Member> members_;
  std::vector<WorkerSpec> const* starting_ = nullptr;  // set during start()
  std::set<pid_t> asked_;                              // workers asked for a checkpoint in this generation
  Descendants descendants_;
  std::map<pid_t, LeftBehind> left_;               // processes that ran when every worker had ended
  std::vector<LeftBehind> killed_;                 // those of `left_` that we have killed
  std::map<pid_t, std::function<void()>> tended_;  // see tend()
  Ending ending_;
  DeathWatch deaths_;
  WorkerLinks links_;
  EnvironmentWatch environments_;
  std::map<std::uint32_t, PendingFork> forking_;  // by local rank
  std::shared_ptr<Zygote> zygote_;                // null: workers are executed
  std::optional<ExitStatus> zygote_end_;
  pid_t zygote_pid_ = 0;

  // The modules that workers import, as far as --warm needs to know.
  struct Imports {
    explicit Imports(boost::asio::io_context& io) : timer(io) {}
    os::Timer timer;
    bool automatic = false;      // --warm=auto
    bool warned = false;         // about modules that --warm has left out
    WorkerSpec like;             // how the warm Python is started; empty argv: it never is
    std::vector<Import> wanted;  // by --warm=auto: without the modules that a fork cannot share
    std::uint32_t refused = 0;   // warm Pythons that have failed because of a module
    bool restart = false;        // start another warm Python when this one has ended
  };
  Imports imports_;
};

}  // namespace cxxrun::launcher
