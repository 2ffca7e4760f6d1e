// cxxrun-rendezvous: the coordinator and the stores of a whole job as a program of its own, for the job script.
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include "launcher/agent/chronicles.hpp"
#include "launcher/agent/live_job.hpp"
#include "launcher/options/parse_options.hpp"
#include "launcher/place/discovery_file.hpp"
#include "launcher/place/run_names.hpp"
#include "launcher/place/secret_file.hpp"
#include "launcher/programs/programs.hpp"
#include "launcher/report/report.hpp"
#include "rendezvous/net/key_ring.hpp"
#include "rendezvous/net/server.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/exit_codes.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/port_sequence.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/colour.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/fd_io.hpp"
#include "src/base/os/held_process.hpp"
#include "src/base/os/limits.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/monitor.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/signal_watch.hpp"
#include "src/base/os/signals.hpp"
#include "src/base/os/system.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;
using boost::system::error_code;

constexpr Millis kSameEnd{1000};
constexpr Millis kLookAtOwner{500};         // where nothing tells of its end
constexpr Millis kHold{6000};               // after it has died: what workers are given then, as a rule
constexpr std::uint64_t kDescriptors = 32;  // of its own, before the first agent calls

/// What ends us. A signal that is ignored stays so: Ctrl-C in a terminal is not for what a script has in the
/// background.
sigset_t ending_signals() {
  sigset_t set = os::make_sigset({SIGTERM});
  for (int const signal : {SIGINT, SIGHUP}) {
    if (!os::is_ignored(signal)) {
      sigaddset(&set, signal);
    }
  }
  return set;
}

/// A coordinator and stores for every step of a job, until it is told to end or whoever started it is gone: the runs
/// are stopped first, by a second signal at once. Runs on the calling thread; the stores have one of their own.
class RendezvousHost {
 public:
  /// `transports`: nothing with --auth none.
  RendezvousHost(rendezvous::CoordinatorConfig config, pid_t owner,
                 std::optional<rendezvous::KeyTransports> const& transports, Chronicles chronicles,
                 std::shared_ptr<os::PortKeeper> keeper, std::string host)
      : owner_(owner),
        host_(std::move(host)),
        keeper_(std::move(keeper)),
        serves_any_(config.only_id.empty()),
        chronicles_(std::move(chronicles)),
        keys_(transports ? std::make_shared<rendezvous::KeyRing>(io_, *transports) : nullptr),
        coordinator_(io_, stores_, with_keys(std::move(config)), handlers()) {
    stores_.begin();
  }

  /// Blocks until it has been told to end and has stopped its runs. `ports`: the first that is free; 0: any.
  /// `listening` is called once, with the key of the runs, "" = --auth none. Errors: in_use (the ports), io, and what
  /// `listening` returns.
  Result<void> run(std::vector<std::uint16_t> const& ports,
                   std::function<Result<void>(std::uint16_t port, std::string key)> const& listening) {
    std::signal(SIGPIPE, SIG_IGN);
    if (auto const watched = signals_.begin(ending_signals()); !watched) {
      return watched.error();
    }
    await_owner();
    auto const port = coordinator_.listen(ports);
    if (!port) {
      return port.error();
    }
    if (keys_ && serves_any_) {
      keys_->open_as(name_of_port(*port));
    }
    if (auto made = keys_ ? keys_->make(true) : Result<void>(); !made) {
      return made;
    }
    if (auto const told = listening(*port, keys_ ? key_text(*keys_->own()) : ""); !told) {
      return told.error();
    }
    io_.run();
    keeper_->release();
    return {};
  }

 private:
  rendezvous::CoordinatorConfig with_keys(rendezvous::CoordinatorConfig config) const {
    config.keys = keys_;
    return config;
  }

  rendezvous::CoordinatorHandlers handlers() {
    rendezvous::CoordinatorHandlers on;
    on.concluded = [this](std::string const& run_id, rendezvous::Verdict const& verdict) {
      if (auto report = format_report(verdict, run_id, colour_); !report.empty()) {
        std::fputs(report.c_str(), stderr);
      }
      chronicles_.conclude(run_id, verdict);
      lives_.erase(run_id);
    };
    on.happened = [this](std::string const& run_id, auto const& event) {
      auto& live = lives_[run_id];
      if (!live) {
        live =
            std::make_unique<LiveJob>(io_, live::Facts{run_id, host_, "", std::nullopt, ""},
                                      [this](auto agent, auto const& message) { coordinator_.tell(agent, message); });
      }
      live->happened(event, chronicles_.add(run_id, event));
    };
    on.live = [this](std::string const& run_id, auto agent, std::string const& host, auto message) {
      if (auto const it = lives_.find(run_id); it != lives_.end()) {
        it->second->heard(agent, host, std::move(message));
      }
    };
    on.closed = [this] { leave_if_idle(); };
    return on;
  }

  void await_owner() {
    if (owner_ <= 1) {  // init does not end
      return;
    }
    owner_held_ = os::HeldProcess::hold(owner_);
    if (!owner_held_ && kill(owner_, 0) == 0) {
      log(Level::warn, "cannot watch process " + std::to_string(owner_) +
                           ", which started this: that takes pidfds (Linux 5.3) or /proc; end this with a signal");
      return;
    }
    error_code unheard = asio::error::bad_descriptor;
    if (owner_held_ && owner_held_->fd() >= 0) {
      owner_watch_.assign(fcntl(owner_held_->fd(), F_DUPFD_CLOEXEC, 3), unheard);
    }
    if (unheard) {
      asio::post(io_, [this] { look_at_owner(); });
      return;
    }
    owner_watch_.async_wait(stream_descriptor::wait_read, [this](error_code const& error) {
      if (!error) {
        owner_ended();
      }
    });
  }

  void look_at_owner() {
    if (!owner_held_ || !owner_held_->runs()) {
      owner_ended();
      return;
    }
    next_look_.after(kLookAtOwner, [this] { look_at_owner(); });
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

  void keep(int listener) {
    if (auto const kept = keeper_->keep(listener, kHold); !kept) {
      log(Level::warn, "the port of a store will be free at once if this process dies: " + kept.error().message());
    }
  }

  pid_t owner_;  // this ends with it; at most 1: with nobody
  std::string host_;
  std::shared_ptr<os::PortKeeper> keeper_;
  bool serves_any_;
  Chronicles chronicles_;
  bool const colour_ = os::stderr_takes_colour();
  std::optional<TimePoint> ending_;
  asio::io_context io_{1};
  os::SignalWatch signals_{
      io_, [this](auto const& info) { end(info.signal, "told to end by " + signal_name(info.signal)); }};
  std::optional<os::HeldProcess> owner_held_;
  stream_descriptor owner_watch_{io_};
  os::Timer next_look_{io_};
  std::shared_ptr<rendezvous::KeyRing> keys_;
  std::map<std::string, std::unique_ptr<LiveJob>> lives_;  // by run, those under way
  store::StoreServer stores_{
      [](std::string const& line) { log(Level::warn, line); }, {}, [this](int listener) { keep(listener); }};
  rendezvous::Coordinator coordinator_;
};

std::vector<std::uint16_t> ports_to_try(RendezvousOptions const& options, Environment const& environment) {
  if (options.port) {
    return {*options.port};
  }
  if (options.range.first != 0) {
    std::vector<std::uint16_t> ports(options.range.last - options.range.first + 1U);
    std::iota(ports.begin(), ports.end(), options.range.first);
    return ports;
  }
  auto const name = discovery_name(environment);
  if (name.empty()) {
    return {kDefaultPort};
  }
  auto ports = port_sequence(name + ".rendezvous", kPortsTried);
  ports.push_back(0);  // steps read the port in the discovery file
  return ports;
}

/// Another one in this job would take the steps of the first.
Result<void> check_alone(std::string const& path, std::string const& host) {
  auto const other = read_discovery(path);
  if (!other || !other->has_value() || (*other)->host != host) {
    return {};
  }
  auto const stat = os::read_stat(static_cast<pid_t>((*other)->pid));
  bool const runs = stat && stat->comm == "cxxrun-rendezvo" && stat->state != 'Z';
  return runs ? Result<void>(fail(Errc::usage, "it runs already in this job, as process " +
                                                   std::to_string((*other)->pid) + "; one serves every step"))
              : Result<void>();
}

int complain(Error const& error) {
  std::fprintf(stderr, "cxxrun-rendezvous: %s\n", os::explain(error).c_str());
  return error.code == Errc::usage ? kExitUsage : kExitSystem;
}

/// `announce` is given "HOST:PORT" once everybody can come.
int serve(RendezvousOptions const& options, pid_t owner, std::function<void(std::string const&)> const& announce) {
  if (!os::descriptors_left(kDescriptors)) {
    return complain(fail(Errc::io, "it needs " + std::to_string(kDescriptors) + " descriptors", EMFILE));
  }
  auto const secret = take_secret();
  auto keeper = os::start_port_holder();  // whose environment has no secret any more
  if (!keeper) {
    return complain(keeper.error());
  }
  auto const environment = os::read_environment();
  auto transports = key_transports(options.auth, secret, value_of(environment, "HOME"));
  if (!transports) {
    return complain(transports.error());
  }
  if (auto const job = name_of_job(environment); !options.id.empty()) {
    transports->opens = {name_of_run(options.id)};
  } else if (!job.empty()) {
    transports->opens = {job};
  }
  std::string host = value_of(environment, "SLURMD_NODENAME");
  host = options.loopback ? "127.0.0.1" : host.empty() ? os::short_hostname() : host;
  auto chronicles = Chronicles::in(options.log_dir, host);
  if (!chronicles) {
    return complain(chronicles.error());
  }
  std::string const nonce = random_hex(16);
  std::string const name = discovery_name(environment);
  Discovery self;
  rendezvous::CoordinatorConfig config;
  config.nonce = nonce;
  config.loopback_only = options.loopback;
  config.serves_all = true;
  config.only_id = options.id;
  config.store_ports = options.range;
  auto const listening = [&](std::uint16_t port, std::string key) -> Result<void> {
    if (!name.empty()) {
      self = describe_self(environment, name, host, port, nonce);
      self.key = std::move(key);
    }
    if (!self.path.empty()) {
      auto const written = within_patience(discovery_dir(environment), [self, host] {
        auto const alone = check_alone(self.path, host);
        return alone ? write_discovery(self) : alone;
      });
      if (!written) {
        self.path.clear();
        return written.error();
      }
    }
    announce(endpoint_text(host, port));
    return {};
  };
  auto const trusted = options.auth == Auth::none ? std::nullopt : std::optional(*transports);
  auto const served =
      RendezvousHost(std::move(config), owner, trusted, *std::move(chronicles), *std::move(keeper), host)
          .run(ports_to_try(options, environment), listening);
  if (!self.path.empty()) {
    static_cast<void>(within_patience(discovery_dir(environment), [path = self.path, nonce] {
      remove_discovery(path, nonce);
      return Result<void>();
    }));
  }
  return served ? 0 : complain(served.error());
}

void print(std::string const& endpoint) {
  std::printf("%s\n", endpoint.c_str());
  std::fflush(stdout);
}

/// The work is a child's, of which only the first line is waited for; without one its exit code is ours. The child
/// lets go of standard output, so that $(cxxrun-rendezvous --background) ends too.
int serve_in_background(RendezvousOptions const& options) {
  pid_t const owner = getppid();
  std::array<int, 2> line{};
  if (pipe2(line.data(), O_CLOEXEC) != 0) {
    return complain(fail(Errc::io, "cannot make a pipe", errno));
  }
  os::UniqueFd reading(line[0]);
  os::UniqueFd writing(line[1]);
  pid_t const child = fork();
  if (child < 0) {
    return complain(fail(Errc::io, "cannot make a process", errno));
  }
  if (child == 0) {
    reading.reset();
    return serve(options, owner, [&](std::string const& endpoint) {
      print(endpoint);
      os::UniqueFd const nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
      dup2(nowhere.get(), STDOUT_FILENO);
      (void)write(writing.get(), "", 1);
    });
  }
  writing.reset();
  if (!os::read_all(reading.get(), 1).value_or("").empty()) {
    return 0;
  }
  int status = 0;
  static_cast<void>(os::retried([&] { return waitpid(child, &status, 0); }));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int run_rendezvous(std::vector<std::string> const& arguments) {
  os::ensure_standard_descriptors();
  RendezvousOptions options;
  if (auto const early = parse(rendezvous_command(options), arguments)) {
    std::fputs(early->text.c_str(), early->code == 0 ? stdout : stderr);
    return early->code;
  }
  log_setup("cxxrun-rendezvous", log_level(options.log_level).value_or(Level::info));
  os::raise_nofile_limit();
  return options.background ? serve_in_background(options) : serve(options, getppid(), print);
}

}  // namespace cxxrun::launcher
