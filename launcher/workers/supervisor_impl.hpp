// Supervisor::Impl, over three files: supervisor_impl.cpp (events, actions), supervisor_start.cpp and
// supervisor_ending.cpp.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "launcher/logs/log_pump.hpp"
#include "launcher/workers/descendants.hpp"
#include "launcher/workers/supervisor.hpp"
#include "launcher/workers/worker_group.hpp"
#include "launcher/workers/worker_links.hpp"
#include "launcher/workers/worker_process.hpp"
#include "src/os/machine.hpp"
#include "src/os/signals.hpp"
#include "src/os/timer.hpp"

namespace cxxrun::launcher {

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

  Impl(boost::asio::io_context& context, LogPump& log_pump, SupervisorHandlers callbacks);

  // -- supervisor_impl.cpp -------------------------------------------------------------------------------------

  void watch_children();
  void reap();
  void check_descendants();
  void happen(GroupEvent event) { machine.feed(std::move(event), *this); }
  [[nodiscard]] static GroupPolicy const& policy();
  void say(Line const& line) const;
  static void stepped() {}
  void perform(SignalGroup const& what);
  void perform(TellOver const& what);
  void perform(TellEnds const& what);
  void perform(EndSurplus const& what);
  void perform(SignalDescendants const& what);
  void perform(ArmTimer const& what);
  void perform(ReportExit const& what);
  void perform(ReportUnkillable const& what);
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

  // -- supervisor_ending.cpp -----------------------------------------------------------------------------------

  void perform(ReportEnded const& what);
  void take_over_unkillable(Member& member);
  void drain(std::uint64_t stream, std::uint32_t local_rank, bool keep);
  void drained();

  boost::asio::io_context& io;
  LogPump& pump;
  SupervisorHandlers handlers;
  os::SignalFd child_signals;
  boost::asio::posix::stream_descriptor child_events;
  os::Timer timer;
  os::Machine<GroupState, GroupEvent> machine;
  GroupState& state = machine.state;
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
