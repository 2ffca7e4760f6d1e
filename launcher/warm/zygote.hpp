// Zygote: the warm Python of a node, which imports once and from which workers are forked. Shell of warm_starts.
//
// Used on the thread of the io_context, which must be the process's main thread. The process must be a subreaper: a
// forked worker becomes our child when the process between it and the zygote ends.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "launcher/warm/warm_command.hpp"
#include "launcher/warm/warm_starts.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/state_machine.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

/// What a forked worker is given.
struct WarmWorker {
  std::array<os::UniqueFd, 3> streams;  ///< its standard descriptors; empty = /dev/null
  std::string words;                    ///< warm_words()
};

/// What a zygote asks and tells the one that has the workers.
struct ZygoteInbox {
  /// Opens what the worker needs. Nothing: that failed, and the callee has reported it.
  virtual std::optional<WarmWorker> open_warm(std::uint32_t local_rank) = 0;
  /// The worker is forked, is our child and leads its session. It goes on when this returns.
  virtual void on_forked(std::uint32_t local_rank, pid_t pid) = 0;
  /// The worker is to be executed.
  virtual void on_not_forked(std::uint32_t local_rank) = 0;
  /// Importing this module has failed, or has left something that a fork cannot share. No worker is forked from this
  /// zygote.
  virtual void on_module_refused(std::string const& module) = 0;
  /// The worker was cancelled before it began.
  virtual void on_dropped(std::uint32_t local_rank) = 0;
};

class Zygote : public std::enable_shared_from_this<Zygote> {
 public:
  struct Started {
    std::shared_ptr<Zygote> zygote;
    pid_t pid = 0;
    os::UniqueFd output;  ///< its stdout and stderr
  };
  /// Starts the zygote for workers with a command like `argv`. `io` and `inbox` outlive it. Errors: usage, when no such
  /// worker can be forked; io.
  [[nodiscard]] static Result<Started> start(boost::asio::io_context& io, std::vector<std::string> const& argv,
                                             std::vector<std::string> environment, std::string const& modules,
                                             ZygoteInbox& inbox);
  Zygote(Zygote const&) = delete;
  Zygote& operator=(Zygote const&) = delete;
  ~Zygote() = default;

  /// Whether a worker with that command can be forked.
  [[nodiscard]] bool takes(std::vector<std::string> const& argv) const;
  /// Starts a worker: on_forked(), on_not_forked() or on_dropped() is called, now or later; or open_warm() returns
  /// nothing.
  void want(std::uint32_t local_rank);
  /// Drops all workers that are wanted and not forked yet.
  void cancel() { feed(warm::Cancelled{}); }
  /// The caller has frozen or thawed all descendants of this process, the zygote among them.
  void freeze(bool frozen) { feed(warm::Frozen{frozen}); }
  [[nodiscard]] bool frozen() const { return machine_.state.frozen; }
  /// The zygote has been reaped.
  void ended(ExitStatus const& status);

 private:
  friend os::Machine<warm::State, warm::Event>;
  using Stream = boost::asio::posix::stream_descriptor;

  Zygote(boost::asio::io_context& io, WarmCommand command, std::string const& modules, ZygoteInbox& inbox);
  void feed(warm::Event event) { machine_.feed(std::move(event), *this); }
  [[nodiscard]] warm::Policy const& policy() const { return policy_; }
  static void say(Line const& line);
  static void stepped() {}
  void perform(warm::Fork const& what);
  void perform(warm::Admit const& what);
  void perform(warm::Execute const& what);
  void perform(warm::Drop const& what);
  void perform(warm::Kill const& what);
  void perform(warm::Arm const& what);
  void await_report();
  void await_hello(std::uint32_t local_rank);
  void on_hello(std::uint32_t local_rank);

  boost::asio::io_context& io_;
  WarmCommand command_;
  warm::Policy policy_;
  ZygoteInbox& inbox_;
  pid_t pid_ = 0;  // 0 once it has been reaped
  Stream control_;
  std::map<std::uint32_t, std::shared_ptr<Stream>> callers_;  // by local rank: our end of the socket of a fork
  os::Timer timer_;
  // step(): warm_starts.cpp
  os::Machine<warm::State, warm::Event> machine_;
};

}  // namespace cxxrun::launcher
