// Supervisor::Impl, over three files: supervisor_impl.cpp (events, actions), supervisor_start.cpp and
// supervisor_ending.cpp.
#pragma once

#include <csignal>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/process/v2/process.hpp>

#include "launcher/logs/log_pump.hpp"
#include "launcher/workers/descendants.hpp"
#include "launcher/workers/supervisor.hpp"
#include "launcher/workers/worker_group_state.hpp"
#include "launcher/workers/worker_links.hpp"
#include "src/core/exit_status.hpp"
#include "src/os/children.hpp"
#include "src/os/machine.hpp"
#include "src/os/signal_watch.hpp"
#include "src/os/timer.hpp"

namespace cxxrun::launcher {

/// A worker's process, from its start until its exit is taken. Not thread-safe.
///
/// Boost.Process terminates, and waits for, whatever it still holds when it is destroyed. Nothing in the agent may
/// block on a process, so this class lets go of it first.
class WorkerProcess {
 public:
  WorkerProcess(boost::asio::io_context& io, pid_t pid) : pid_(pid) {
    try {
      process_.emplace(io.get_executor(), pid);
    } catch (boost::system::system_error const&) {
      // no descriptor is left for its pidfd; the worker runs all the same, and its exit is taken by pid
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

  /// Takes the exit of a process that has ended; never blocks. Its native code is the status word: exit_code() would
  /// make 9 of both "exit 9" and "killed by signal 9".
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

struct Supervisor::Impl : std::enable_shared_from_this<Impl> {
  // What the shell keeps of one worker; its life is in GroupState. It stays with a process that is resumed.
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

  Impl(boost::asio::io_context& context, LogPump& log_pump, SupervisorHandlers callbacks, std::string const& sockets);

  // -- supervisor_impl.cpp -------------------------------------------------------------------------------------

  void reap();
  void check_descendants();
  void happen(GroupEvent event) { machine.feed(event, *this); }
  [[nodiscard]] GroupPolicy const& policy() const { return group_policy; }
  void say(Line const& line) const;
  static void stepped() {}
  void perform(SignalGroup const& what);
  void perform(TellOver const& /*what*/) { links.over(); }
  void perform(TellEnds const& /*what*/) { links.ends(); }
  void perform(EndSurplus const& what) { descendants.signal_worker(what.pid, SIGKILL); }
  void perform(SignalDescendants const& what) {
    descendants.signal_strangers(live_workers(), kept_workers(), what.signal);
  }
  void perform(ArmTimer const& what);
  void perform(ReportExit const& what);
  void perform(ReportUnkillable const& /*what*/) { ending.unkillable = descendants.abandon_all(kept_workers()); }
  /// Local rank of a worker that lives, be it parked.
  [[nodiscard]] std::optional<std::uint32_t> who(pid_t pid) const;
  /// All that live, be they parked.
  [[nodiscard]] std::vector<pid_t> live_workers() const;
  /// Those of them whose descendants are not to be touched.
  [[nodiscard]] std::vector<pid_t> kept_workers() const;
  [[nodiscard]] WorkerLinks::Handlers link_handlers();
  std::size_t forward(int signal, std::set<pid_t>& served) const;

  // -- supervisor_start.cpp ------------------------------------------------------------------------------------

  void start(std::uint64_t number, std::vector<WorkerSpec> const& workers);
  void prepare_members(std::vector<WorkerSpec> const& workers);
  void start_one(WorkerSpec const& spec, Member& member, int capacity_bytes);
  void perform(ResumeWorker const& what);
  void hand_to_pump(Member& member);
  void drop_streams(Member& member);

  // -- supervisor_ending.cpp -----------------------------------------------------------------------------------

  void perform(ReportEnded const& what);
  void drain(std::uint64_t stream, std::uint32_t local_rank, bool keep);
  void drained();

  boost::asio::io_context& io;
  LogPump& pump;
  SupervisorHandlers handlers;
  os::SignalWatch child_signals;
  os::Timer timer;
  os::Machine<GroupState, GroupEvent> machine;
  GroupState& state = machine.state;
  GroupPolicy group_policy;
  std::uint64_t generation = 0;
  bool active = false;  // from start until `ended` is posted, and again while those that wait are stopped
  bool told = false;    // the generation's exits
  std::vector<Member> members;
  std::vector<WorkerSpec> const* starting = nullptr;  // during start()
  std::set<pid_t> asked;                              // for a checkpoint, in this generation
  Descendants descendants;
  std::map<pid_t, std::function<void()>> tended;  // children that are no worker's
  Ending ending;
  WorkerLinks links;
};

}  // namespace cxxrun::launcher
