#include "launcher/programs/rendezvous_host.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <optional>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include "launcher/logs/report.hpp"
#include "src/core/exit_status.hpp"
#include "src/core/time.hpp"
#include "src/os/fd.hpp"
#include "src/os/log.hpp"
#include "src/os/signals.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;

constexpr Millis kSameEnd{1000};
using asio::posix::stream_descriptor;
using boost::system::error_code;

bool ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// What ends us. A signal that is ignored stays so: Ctrl-C in a terminal is not for what a script has in the
/// background.
sigset_t ending_signals() {
  sigset_t set = os::make_sigset({SIGTERM});
  for (int const signal : {SIGINT, SIGHUP}) {
    if (!ignored(signal)) {
      sigaddset(&set, signal);
    }
  }
  return set;
}

class RendezvousHost {
 public:
  explicit RendezvousHost(RendezvousConfig config)
      : config_(std::move(config)), coordinator_(io_, stores_, config_.coordinator, handlers()) {}

  Result<void> run() {
    std::signal(SIGPIPE, SIG_IGN);
    auto opened = os::SignalFd::open(ending_signals());
    if (!opened) {
      return opened.error();
    }
    signal_fd_ = *std::move(opened);
    signals_.assign(fcntl(signal_fd_.fd(), F_DUPFD_CLOEXEC, 3));
    await_signals();
    await_owner();
    auto const port = coordinator_.listen(config_.ports);
    if (!port) {
      return port.error();
    }
    if (auto const told = config_.listening(*port); !told) {
      return told.error();
    }
    io_.run();
    return {};
  }

 private:
  rendezvous::CoordinatorHandlers handlers() {
    rendezvous::CoordinatorHandlers on;
    on.concluded = [this](std::string const& run_id, rendezvous::Verdict const& verdict) {
      if (auto report = format_report(verdict, run_id, colour_); !report.empty()) {
        std::fputs(report.c_str(), stderr);
      }
    };
    on.closed = [this] { leave_if_idle(); };
    return on;
  }

  void await_signals() {
    signals_.async_wait(stream_descriptor::wait_read, [this](error_code const& error) {
      if (error) {
        return;
      }
      while (auto const info = signal_fd_.read()) {
        end(info->signal, "told to end by " + signal_name(info->signal));
      }
      await_signals();
    });
  }

  void await_owner() {
    if (config_.owner <= 1) {  // init does not end
      return;
    }
    int const watch = static_cast<int>(syscall(SYS_pidfd_open, config_.owner, 0));
    if (watch < 0 && errno == ESRCH) {
      asio::post(io_, [this] { owner_ended(); });
    } else if (watch >= 0) {
      owner_.assign(watch);
      owner_.async_wait(stream_descriptor::wait_read, [this](error_code const& error) {
        if (!error) {
          owner_ended();
        }
      });
    }
  }

  void owner_ended() { end(SIGTERM, "whoever started this has ended", false); }

  /// Slurm's time limit sends two signals, and a script that is told to end passes its own on: within a second all of
  /// them are one. `may_hurry`: a later one ends this at once.
  void end(int signal, std::string const& why, bool may_hurry = true) {
    log(Level::info, why);
    auto const now = Clock::now();
    if (ending_) {
      if (may_hurry && now - *ending_ > kSameEnd) {
        io_.stop();
      }
      return;
    }
    ending_ = now;
    coordinator_.quit(signal);  // no run is opened any more
    leave_if_idle();
  }

  void leave_if_idle() {
    if (ending_ && coordinator_.idle()) {
      io_.stop();
    }
  }

  RendezvousConfig config_;
  bool const colour_ = isatty(STDERR_FILENO) != 0;
  std::optional<TimePoint> ending_;
  asio::io_context io_{1};
  stream_descriptor signals_{io_};
  stream_descriptor owner_{io_};
  os::SignalFd signal_fd_;
  store::StoreServer stores_{[](std::string const& line) { log(Level::warn, line); }};
  rendezvous::Coordinator coordinator_;
};

}  // namespace

Result<void> host_rendezvous(RendezvousConfig config) {
  RendezvousHost host(std::move(config));
  return host.run();
}

}  // namespace cxxrun::launcher
