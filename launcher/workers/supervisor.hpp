// Supervisor: the shell that starts, watches, signals and reaps the workers of one agent.
//
// It performs what the pure core in worker_group.cpp decides. All members must be called from the thread that
// runs the io_context, which must be the process's main thread: PDEATHSIG follows the forking thread. No other part
// of the process may have children: whatever is a child, no worker and not handed to tend() counts as a worker's
// escaped descendant and is reaped, signalled and killed as such. SIGCHLD must be blocked in every thread
// (run_under_parent sees to it).
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

#include "launcher/logs/log_pump.hpp"
#include "launcher/plan/worker_plan.hpp"
#include "launcher/warm/imports.hpp"
#include "launcher/warm/zygote.hpp"
#include "launcher/workers/death_watch.hpp"
#include "launcher/workers/descendants.hpp"
#include "launcher/workers/environment_watch.hpp"
#include "launcher/workers/left_behind.hpp"
#include "launcher/workers/worker_group_state.hpp"
#include "launcher/workers/worker_links.hpp"
#include "launcher/workers/worker_process.hpp"
#include "rendezvous/values/standstill.hpp"
#include "rendezvous/values/worker_exit.hpp"
#include "src/base/os/machine.hpp"
#include "src/base/os/signal_watch.hpp"
#include "src/base/os/timer.hpp"
#include "src/base/wire/rail_proof.hpp"

namespace cxxrun::launcher {

/// Called on the io_context's thread, never from inside a call into the Supervisor.
struct SupervisorHandlers {
  /// One worker ended. `exit.stderr_tail` and `error_file` are filled only in `ended`.
  std::function<void(std::uint64_t generation, rendezvous::WorkerExit exit)> exited;
  /// Every worker and every descendant of the generation is reaped and its output is written, but for those that
  /// have parked: they are not in `exits`, and `waiting` says that there are some. Comes once more, without exits, when
  /// these have been stopped. `unkillable`: lines naming processes that survived SIGKILL (empty in all normal ends).
  /// `lacks`: others need not wait until those that have ended are started again (fill()).
  std::function<void(std::uint64_t generation, std::vector<rendezvous::WorkerExit> exits,
                     std::vector<std::string> unkillable, bool waiting, bool lacks)>
      ended;
  /// What was missing is there and waits, or `whole` is false: one has ended instead.
  std::function<void(std::uint64_t generation, bool whole)> filled{};
  /// A worker has said that others need not wait for it.
  std::function<void()> shrinks{};
  /// A worker has parked, and whom its Communicator gave up.
  std::function<void(std::uint64_t generation, rendezvous::Named named)> named{};
  /// What the agent says of a connection between the worker of this rank and a rank of another node; none: it has no
  /// key. Errors: refused.
  using Prove = std::function<Result<wire::RailVerdict>(std::uint64_t generation, std::uint32_t rank,
                                                        wire::RailClaim const& claim)>;
  Prove prove{};
  /// How often our parent process has killed this node's workers, because their lease had run out; none: it does not.
  std::function<std::uint32_t()> parent_kills{};
  /// As of WorkerLinks::Handlers.
  std::function<void(os::UniqueFd connection, std::string question)> asked{};
};

/// Owned by a shared_ptr: what is posted to the io_context holds it weakly.
class Supervisor : public std::enable_shared_from_this<Supervisor> {
 public:
  /// `io` and `pump` outlive the Supervisor, and the pump is finished before `io` is destroyed: its thread posts
  /// there. While a Supervisor exists, io.run() does not return by itself. Throws std::runtime_error when the
  /// system is out of descriptors. `sockets`: the directory of socket().
  Supervisor(boost::asio::io_context& io, LogPump& pump, SupervisorHandlers handlers, std::string const& sockets = "");
  ~Supervisor();  ///< SIGKILLs and reaps whatever is left (blocks, at most 5 s); no handler is called any more
  Supervisor(Supervisor const&) = delete;
  Supervisor& operator=(Supervisor const&) = delete;

  /// Starts the workers of a generation, or resumes those that wait (docs/design/survival.md), all of them or none
  /// running for long: a worker that cannot be started is reported by `exited` with ExitStatus::not_started (its
  /// stderr_tail says why in `ended`) and the others are stopped by the caller's order. `workers[i].local_rank` is i.
  /// Refused with a line in the log while a generation has not ended. Blocks about 0.2 ms per worker.
  void start(std::uint64_t generation, std::vector<WorkerSpec> const& workers);
  /// Starts those workers of the generation that has ended last which have ended, without a generation: they wait like
  /// those that have parked, and `filled` follows once. The next start() goes on with those that wait by then.
  void fill(std::vector<WorkerSpec> const& workers);
  /// Starts the Python that workers like `like` are forked from, from now on and where that is possible: they are
  /// running some time after start() has returned, and are executed when it comes to nothing (docs/use/warm.md). Once.
  /// With kWarmAuto it starts when the first workers have told what they import.
  void warm_up(WorkerSpec const& like, std::string const& modules);
  /// Begins to stop the running generation; harmless when nothing runs or a stop is under way (a shorter
  /// grace shortens it; grace 0 = kill now). An order that keeps nobody stops those that wait as well; `ended` follows
  /// also when they have died meanwhile.
  void stop(StopOrder const& order);
  /// SIGKILL for one worker of a generation that nobody has ordered to stop. It fails like any other, and its exit says
  /// why: `hung`. Harmless when it has ended, or is being stopped.
  void kill_worker(std::uint32_t local_rank, std::string const& why);
  /// Where it stands, for its end if it has to be killed: "train.py:33 in load"; "": nobody knows.
  void stands_at(std::uint32_t local_rank, std::string place) { members_[local_rank].place = std::move(place); }
  /// Asks it to give up what it waits for (worker::ControlPage::asked); nothing without a page.
  void ask_to_give_up(std::uint32_t local_rank) { links_.ask_to_give_up(local_rank); }
  /// How it has ended, while its generation runs; nothing: it has not.
  [[nodiscard]] std::optional<rendezvous::WorkerExit> end_of(std::uint32_t local_rank) const;
  /// Its process; 0 when it has none, or none any more.
  [[nodiscard]] pid_t pid_of(std::uint32_t local_rank) const;
  /// The process in it that trains: the one that has registered, which a wrapper script may have started, else as
  /// pid_of().
  [[nodiscard]] pid_t program_of(std::uint32_t local_rank) const;
  /// A child of this process that is no worker's, started just now: it is reaped, never signalled, and nobody waits for
  /// it. `ended`: once, on the io_context's thread.
  void tend(pid_t child, std::function<void()> ended);
  /// Stops every worker and descendant where it is (SIGSTOP), and lets them go on (SIGCONT). A stop order wakes them.
  void freeze();
  void thaw();
  /// Passes a signal on to those who catch it (/proc/PID/status SigCgt): the worker itself, else the nearest of its
  /// descendants in its session that do, so that a shell script around the program is no obstacle.
  void forward(int signal);
  /// The same for the workers that are not in `served`, and puts those who got it there; returns how many have not.
  /// Those that have a page find the wish there too, once in a generation.
  std::size_t ask_for_checkpoint(int signal, std::set<pid_t>& served);

  /// Where workers register: CXXRUN_AGENT. "" without a descriptor to spare.
  [[nodiscard]] std::string socket() const { return links_.name(); }
  /// What a worker that has registered shows of itself, also after its death until another one takes its place; null:
  /// none has.
  [[nodiscard]] worker::ControlPage const* page(std::uint32_t local_rank) const { return links_.page(local_rank); }

 private:
  friend os::Machine<GroupState, GroupEvent>;

  // What the shell keeps of one worker; its life is in GroupState. It stays with a process that is resumed.
  struct Member {
    std::optional<WorkerProcess> process;
    rendezvous::WorkerExit exit;
    std::string error_file;
    std::vector<std::string> paths;   // that it needs, or writes to
    std::uint64_t peak = 0;           // see DeadWorker
    bool has_stdin = false;           // the same
    std::vector<PumpStream> pending;  // opened, not yet with the pump: added once every worker is started
    std::vector<std::uint64_t> streams;
    std::optional<std::uint64_t> stderr_stream;
    std::string place;              // where it stood shortly before it had to be killed
    bool killed = false;            // by us
    bool died_before_kill = false;  // see Exited
    bool forked = false;            // from the warm Python
  };

  // What is being collected between the last exit and `ended`.
  struct Ending {
    std::uint64_t number = 0;  // counts endings: a drain that comes after its ending was cut short is nobody's
    std::size_t drains = 0;
    std::vector<std::string> unkillable;
    std::optional<os::PathProbe> probe;
    std::vector<std::string> probed;  // its paths
  };

  // -- supervisor.cpp ------------------------------------------------------------------------------------------

  void reap();
  void check_descendants();
  void happen(GroupEvent event) { machine_.feed(event, *this); }
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
  void perform(ReportUnkillable const& /*what*/) { ending_.unkillable = descendants_.abandon_all(spared()); }
  /// Local rank of a worker that lives, be it parked.
  [[nodiscard]] std::optional<std::uint32_t> who(pid_t pid) const;
  /// All that live, be they parked.
  [[nodiscard]] std::vector<pid_t> live_workers() const;
  [[nodiscard]] Descendants::Spares spared() const;
  [[nodiscard]] WorkerLinks::Handlers link_handlers();
  [[nodiscard]] std::optional<worker::Loss> loss_of(std::uint32_t local_rank) const;
  void tell_named(std::uint32_t local_rank);
  std::size_t forward(int signal, std::set<pid_t>& served) const;

  // -- supervisor_start.cpp ------------------------------------------------------------------------------------

  void prepare_members(std::vector<WorkerSpec> const& workers);
  void start_missing(std::vector<WorkerSpec> const& workers);
  void start_one(WorkerSpec const& spec, Member& member, int capacity_bytes);
  void execute(WorkerSpec const& spec, Member& member, int capacity_bytes);
  void start_failed(Member& member, int error, std::string const& why, std::string const& what);
  void perform(ResumeWorker const& what);
  void hand_to_pump(Member& member);
  void drop_streams(Member& member);

  // -- supervisor_warm.cpp -------------------------------------------------------------------------------------

  // A worker that is to be forked, until it is.
  struct Warm {
    WorkerSpec spec;
    int capacity_bytes = 0;
    std::vector<PumpStream> streams;
  };
  bool start_warm(WorkerSpec const& spec, int capacity_bytes);
  std::optional<WarmWorker> open_warm(std::uint32_t local_rank);
  [[nodiscard]] ZygoteHandlers zygote_handlers();
  void start_zygote(std::string const& modules);
  void zygote_ended();
  void listen_for_imports();
  void hear_imports(bool may_start);

  // -- supervisor_ending.cpp -----------------------------------------------------------------------------------

  void perform(ReportEnded const& what);
  void drain(std::uint64_t stream, std::uint32_t local_rank, bool keep);
  void drained();
  [[nodiscard]] std::vector<DeadWorker> dead_workers();
  bool begin_probe();
  void probe_ended(std::uint64_t number);
  void tell_ended();

  boost::asio::io_context& io_;
  LogPump& pump_;
  SupervisorHandlers handlers_;
  os::SignalWatch child_signals_;
  os::Timer timer_;
  os::Timer probe_timer_;
  os::Machine<GroupState, GroupEvent> machine_;
  GroupState& state_ = machine_.state;
  GroupPolicy group_policy_;
  std::uint64_t generation_ = 0;
  bool active_ = false;           // from start until `ended` is posted, and again while those that wait are stopped
  bool told_ = false;             // the generation's exits
  Millis grace_ = Millis::max();  // of its stop
  std::vector<Member> members_;
  std::vector<WorkerSpec> const* starting_ = nullptr;  // during start()
  std::set<pid_t> asked_;                              // for a checkpoint, in this generation
  Descendants descendants_;
  std::map<pid_t, LeftBehind> left_;               // when every worker had ended
  std::vector<LeftBehind> killed_;                 // of those
  std::map<pid_t, std::function<void()>> tended_;  // children that are no worker's
  Ending ending_;
  DeathWatch deaths_;
  WorkerLinks links_;
  EnvironmentWatch environments_;
  std::map<std::uint32_t, Warm> warm_;  // by local rank
  std::shared_ptr<Zygote> zygote_;      // none: workers are executed
  std::optional<ExitStatus> zygote_end_;
  pid_t zygote_pid_ = 0;

  // What the workers import.
  struct Imported {
    explicit Imported(boost::asio::io_context& io) : timer(io) {}
    os::Timer timer;
    bool automatic = false;
    bool said = false;           // what was left out
    WorkerSpec like;             // of the warm Python
    std::vector<Import> wanted;  // by --warm=auto; without what no fork could share
    std::uint32_t refused = 0;   // so many warm Pythons
    bool again = false;          // the next one is started when this one has ended
  };
  Imported imported_;
};

}  // namespace cxxrun::launcher
