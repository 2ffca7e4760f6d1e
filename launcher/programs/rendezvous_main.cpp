// cxxrun-rendezvous: the coordinator and the stores of a whole job as a program of its own, for the job script.
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

#include "launcher/agent/job_record.hpp"
#include "launcher/agent/live_job.hpp"
#include "launcher/options/parse_options.hpp"
#include "launcher/place/discovery_file.hpp"
#include "launcher/place/secret_file.hpp"
#include "launcher/place/topology.hpp"
#include "launcher/programs/programs.hpp"
#include "launcher/report/report.hpp"
#include "rendezvous/net/coordinator.hpp"
#include "rendezvous/net/key_ring.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/ports.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/children.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/monitor.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/process_limits.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/signals.hpp"
#include "src/base/os/system.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;
using boost::system::error_code;

constexpr Millis kSameEnd{1000};
constexpr Millis kLookAtOwner{500};         // where its end causes no event
constexpr Millis kHold{6000};               // time that ports of stores stay taken after this process has died
constexpr std::uint64_t kDescriptors = 32;  // of its own, before the first agent calls

/// The signals that end this program. An ignored signal stays ignored: Ctrl-C in a terminal is not for a background
/// process of a script.
sigset_t ending_signals() {
  sigset_t set = os::make_sigset({SIGTERM});
  for (int const signal : {SIGINT, SIGHUP}) {
    if (!os::is_ignored(signal)) {
      sigaddset(&set, signal);
    }
  }
  return set;
}

/// Hosts a coordinator and stores for every step of a job, until a signal arrives or the process that started it has
/// ended. Then it stops the runs first; a second signal ends it at once. Runs on the calling thread; the stores have
/// their own.
class RendezvousHost final : public rendezvous::CoordinatorInbox, public LiveJobInbox {
 public:
  /// `transports`: empty with --auth none.
  RendezvousHost(rendezvous::CoordinatorConfig config, pid_t owner,
                 std::optional<rendezvous::KeyTransports> const& transports, JobRecords records,
                 std::shared_ptr<os::PortKeeper> keeper, std::string host)
      : owner_(owner),
        host_(std::move(host)),
        keeper_(std::move(keeper)),
        serves_any_(config.only_id.empty()),
        records_(std::move(records)),
        keys_(transports ? std::make_shared<rendezvous::KeyRing>(io_, *transports) : nullptr),
        coordinator_(io_, stores_, with_keys(std::move(config)), *this) {
    stores_.begin();
  }

  /// Blocks until it has been told to end and has stopped its runs. Listens on the first free port of `ports` (0: any),
  /// then calls `listening` once, with the key of the runs ("" with --auth none). Errors: in_use (all ports are taken),
  /// io, and those of `listening`.
  Result<void> run(std::vector<std::uint16_t> const& ports,
                   std::function<Result<void>(std::uint16_t port, std::string key)> const& listening) {
    std::signal(SIGPIPE, SIG_IGN);
    if (auto const watched = signals_.begin(ending_signals()); !watched) {
      return watched.error();
    }
    watch_owner();
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

  void on_concluded(std::string const& run_id, rendezvous::Verdict const& verdict) override {
    if (auto report = format_report(verdict, run_id, colour_); !report.empty()) {
      std::fputs(report.c_str(), stderr);
    }
    records_.conclude(run_id, verdict);
    lives_.erase(run_id);
  }

  void on_run_closed() override { exit_if_idle(); }

  void on_live(std::string const& run_id, rendezvous::AgentId agent, std::string const& host,
               rendezvous::LiveUp&& message) override {
    if (auto const it = lives_.find(run_id); it != lives_.end()) {
      it->second->on_message(agent, host, std::move(message));
    }
  }

  void on_story_event(std::string const& run_id, rendezvous::story::Event const& event) override {
    auto& live = lives_[run_id];
    if (!live) {
      live = std::make_unique<LiveJob>(io_, live::Facts{run_id, host_, "", std::nullopt, ""}, *this);
    }
    live->on_story_event(event, records_.add(run_id, event));
  }

  void tell(rendezvous::AgentId agent, rendezvous::LiveDown const& message) override {
    coordinator_.tell(agent, message);
  }

  std::string want(rendezvous::AgentId agent, rendezvous::Wanted wanted) override {
    return coordinator_.want(agent, std::move(wanted));
  }

  [[nodiscard]] std::optional<rendezvous::History> history(rendezvous::AgentId agent,
                                                           rendezvous::StepTimes const& steps,
                                                           std::optional<TimePoint> idle_until) const override {
    return coordinator_.history(agent, steps, idle_until);
  }

  void watch_owner() {
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
      asio::post(io_, [this] { check_owner(); });
      return;
    }
    owner_watch_.async_wait(stream_descriptor::wait_read, [this](error_code const& error) {
      if (!error) {
        on_owner_exit();
      }
    });
  }

  void check_owner() {
    if (!owner_held_ || !owner_held_->runs()) {
      on_owner_exit();
      return;
    }
    next_look_.after(kLookAtOwner, [this] { check_owner(); });
  }

  void on_owner_exit() { end(SIGTERM, "the process that started this has ended", false); }

  /// At a time limit Slurm sends two signals, and a script may pass its own on: signals within a second count as one.
  /// `may_hurry`: a later signal ends this program at once.
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
    coordinator_.quit(signal);  // refuses new runs
    exit_if_idle();
  }

  void exit_if_idle() {
    if (ending_ && coordinator_.idle()) {
      io_.stop();
    }
  }

  void keep_port(int listener) {
    if (auto const kept = keeper_->keep(listener, kHold); !kept) {
      log(Level::warn, "the port of a store will be free at once if this process dies: " + kept.error().message());
    }
  }

  pid_t owner_;  // the process that started this, which ends with it; at most 1: none
  std::string host_;
  std::shared_ptr<os::PortKeeper> keeper_;
  bool serves_any_;
  JobRecords records_;
  bool const colour_ = os::stderr_takes_colour();
  std::optional<TimePoint> ending_;
  asio::io_context io_{1};
  os::SignalWatch signals_{
      io_, [this](auto const& info) { end(info.signal, "told to end by " + signal_name(info.signal)); }};
  std::optional<os::HeldProcess> owner_held_;
  stream_descriptor owner_watch_{io_};
  os::Timer next_look_{io_};
  std::shared_ptr<rendezvous::KeyRing> keys_;
  std::map<std::string, std::unique_ptr<LiveJob>> lives_;  // by run id, those in progress
  store::StoreServer stores_{
      [](std::string const& line) { log(Level::warn, line); }, {}, [this](int listener) { keep_port(listener); }};
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
  ports.push_back(0);  // any other port: steps read it in the discovery file
  return ports;
}

/// Refuses a second one in the same job: it would take the steps of the first.
Result<void> check_alone(std::string const& path, std::string const& host) {
  auto const other = read_discovery(path);
  if (!other || !other->has_value() || (*other)->host != host) {
    return {};
  }
  auto const stat = os::read_stat(static_cast<pid_t>((*other)->pid));
  bool const runs = stat && stat->comm == "cxxrun-rendezvo" && stat->state != 'Z';
  return runs ? Result<void>(fail(Errc::usage, "it already runs in this job, as process " +
                                                   std::to_string((*other)->pid) + "; one serves all steps"))
              : Result<void>();
}

int complain(Error const& error) {
  std::fprintf(stderr, "cxxrun-rendezvous: %s\n", os::explain(error).c_str());
  return error.code == Errc::usage ? kExitUsage : kExitSystem;
}

rendezvous::CoordinatorConfig config_of(RendezvousOptions const& options, std::string const& nonce) {
  rendezvous::CoordinatorConfig config;
  config.nonce = nonce;
  config.loopback_only = options.loopback;
  config.serves_all = true;
  config.only_id = options.id;
  config.store_ports = options.range;
  return config;
}

/// Calls `announce` with "HOST:PORT" once steps can find it.
int serve(RendezvousOptions const& options, pid_t owner, std::function<void(std::string const&)> const& announce) {
  if (!os::descriptors_left(kDescriptors)) {
    return complain(fail(Errc::io, "it needs " + std::to_string(kDescriptors) + " descriptors", EMFILE));
  }
  auto const secret = take_secret();
  auto keeper = os::start_port_holder();  // after take_secret(), so that its environment has no secret
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
  auto records = JobRecords::in(options.log_dir, host);
  if (!records) {
    return complain(records.error());
  }
  std::string const nonce = random_hex(16);
  std::string const name = discovery_name(environment);
  Discovery self;
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
      RendezvousHost(config_of(options, nonce), owner, trusted, *std::move(records), *std::move(keeper), host)
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

/// A child does the work. This process waits until the child has printed its first line; if it never does, it returns
/// the child's exit code. The child releases standard output, so that $(cxxrun-rendezvous --background) ends, too.
int serve_in_background(RendezvousOptions const& options) {
  pid_t const owner = getppid();
  os::Pipe line = os::make_pipe();
  if (!line) {
    return complain(fail(Errc::io, "cannot make a pipe", errno));
  }
  pid_t const child = fork();
  if (child < 0) {
    return complain(fail(Errc::io, "cannot make a process", errno));
  }
  if (child == 0) {
    line.read.reset();
    return serve(options, owner, [&](std::string const& endpoint) {
      print(endpoint);
      os::UniqueFd const nowhere(open("/dev/null", O_WRONLY | O_CLOEXEC));
      dup2(nowhere.get(), STDOUT_FILENO);
      (void)write(line.write.get(), "", 1);
    });
  }
  line.write.reset();
  if (!os::read_all(line.read.get(), 1).value_or("").empty()) {
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
