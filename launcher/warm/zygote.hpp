// Zygote: the Python of a node that imports once and that its warm workers are forked from. Shell.
//
// One thread, that of the io_context, which must be the process's main thread and that of a subreaper: a worker that is
// forked becomes a child of ours when the process between it and the zygote ends.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
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
#include "src/base/os/machine.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

/// What a worker is given: its standard descriptors (none: /dev/null), and warm_words().
struct WarmWorker {
  std::array<os::UniqueFd, 3> streams;
  std::string words;
};

struct ZygoteHandlers {
  /// Nothing: it cannot be started, and the caller knows.
  std::function<std::optional<WarmWorker>(std::uint32_t local_rank)> open;
  /// It is forked and our child, leads its session, and goes on when this returns.
  std::function<void(std::uint32_t local_rank, pid_t pid)> forked;
  /// It is to be executed.
  std::function<void(std::uint32_t local_rank)> execute;
  /// Importing that module has failed, or has left what no fork could share: nobody is forked from this one.
  std::function<void(std::string const& module)> refused;
  /// It was cancelled before it began.
  std::function<void(std::uint32_t local_rank)> dropped;
};

class Zygote : public std::enable_shared_from_this<Zygote> {
 public:
  struct Begun {
    std::shared_ptr<Zygote> zygote;
    pid_t pid = 0;
    os::UniqueFd output;  ///< what it writes while it imports
  };
  /// Starts it for workers like `argv`. Errors in one line: the command is not of that kind, or what the system
  /// refused.
  [[nodiscard]] static Result<Begun> start(boost::asio::io_context& io, std::vector<std::string> const& argv,
                                           std::vector<std::string> environment, std::string const& modules,
                                           ZygoteHandlers handlers);
  Zygote(Zygote const&) = delete;
  Zygote& operator=(Zygote const&) = delete;
  ~Zygote() = default;

  /// Whether a worker with that command can be forked.
  [[nodiscard]] bool takes(std::vector<std::string> const& argv) const;
  /// One of the handlers follows, at once or later.
  void want(std::uint32_t local_rank) { feed(warm::Wanted{local_rank}); }
  /// None of those that are wanted and not forked is to begin.
  void cancel() { feed(warm::Cancelled{}); }
  /// The node is frozen, or thawed: it is with all descendants of this process.
  void freeze(bool frozen) { feed(warm::Frozen{frozen}); }
  [[nodiscard]] bool frozen() const { return machine_.state.frozen; }
  /// Its process has been reaped.
  void ended(ExitStatus const& status);

 private:
  friend os::Machine<warm::State, warm::Event>;
  using Stream = boost::asio::posix::stream_descriptor;

  Zygote(boost::asio::io_context& io, WarmCommand command, std::string const& modules, ZygoteHandlers handlers);
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
  void hear_report();
  void hear(std::uint32_t local_rank);
  void heard(std::uint32_t local_rank);

  boost::asio::io_context& io_;
  WarmCommand command_;
  warm::Policy policy_;
  ZygoteHandlers handlers_;
  pid_t pid_ = 0;  // 0: reaped
  Stream control_;
  std::map<std::uint32_t, std::shared_ptr<Stream>> callers_;  // our ends of the sockets of those that were asked for
  os::Timer timer_;
  os::Machine<warm::State, warm::Event> machine_;
};

}  // namespace cxxrun::launcher
