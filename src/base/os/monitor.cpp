#include "src/base/os/monitor.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <system_error>

#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/children.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_socket.hpp"
#include "src/base/os/process_info.hpp"
#include "src/base/os/process_limits.hpp"

namespace cxxrun::os {
namespace {

using Words = std::array<char, sizeof(std::int64_t)>;  // how long to hold, in milliseconds

ssize_t send_hold(int channel, Millis hold, int listener) {
  auto const words = std::bit_cast<Words>(static_cast<std::int64_t>(hold.count()));
  return send_packet(channel, {words.data(), words.size()}, listener, MSG_DONTWAIT);
}

ino_t inode_of(int fd) {
  struct stat about {};
  return ::fstat(fd, &about) == 0 ? about.st_ino : 0;
}

bool is_tcp(int fd) {
  int domain = 0;
  int type = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && (domain == AF_INET || domain == AF_INET6) &&
         ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

constexpr int kExitParentGone = 128 + SIGKILL;
constexpr std::chrono::seconds kSweepLimit{5};
constexpr Millis kDeathNoticeLimit{1000};
// Shorter, because the agent may be among its own recipients, and does not answer itself.
constexpr Millis kOwnDeathNoticeLimit{200};
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr int kRounds = 20;

// The signals that users and schedulers send. Faults, job control and SIGALRM keep their meaning.
sigset_t signals_to_pass() {
  sigset_t set = make_sigset({SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGPWR});
  if (!is_ignored(SIGHUP)) {  // ignored under nohup: blocked, it would arrive again
    sigaddset(&set, SIGHUP);
  }
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
    sigaddset(&set, signal);
  }
  return set;
}

// In one write, so that the workers' output does not split the line. The parent has no log.
void say(std::string const& text) {
  std::string const line = "cxxrun: " + text + "\n";
  ssize_t const written = write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);
}

// Until a signal asks to end. All signals are blocked.
void hold_for(Millis time) {
  if (time <= Millis{0}) {
    return;
  }
  say("the port of the store is held for " + seconds_text(time) +
      ": no other program may answer workers of other nodes there");
  sigset_t const ends = make_sigset({SIGTERM, SIGINT, SIGHUP, SIGQUIT});
  timespec const limit{time.count() / 1000, time.count() % 1000 * 1'000'000};
  while (sigtimedwait(&ends, nullptr, &limit) < 0 && errno == EINTR) {
  }
}

std::string name_of(pid_t pid) {
  auto const stat = pid > 0 ? read_stat(pid) : std::nullopt;
  return stat ? stat->comm : "";
}

std::string outcome(bool clean) {
  return clean ? "all workers on this node were stopped" : "some workers on this node could not be stopped within 5 s";
}

std::optional<ExitStatus> reap_agent(pid_t agent) {
  while (auto const reaped = reap_any()) {
    if (reaped->pid == agent) {
      return reaped->status;
    }
  }
  return std::nullopt;
}

// The parent. It has no threads, and waits for descriptors: signals, the lease's timer, the bell and the kept ports.
struct Parent {
  pid_t agent;
  SharedPage const& page;
  UniqueFd standby;
  KeptPorts ports;
  std::vector<pid_t> const& spare;
  SignalFd signals;
  UniqueFd timer;  // absolute, on Clock: a lease that expires while the machine is suspended is over on resume
  LeaseGuard guard;

  int finish(ExitStatus const& status) {
    bool const clean = sweep_descendants(Clock::now() + kSweepLimit, spare);
    if (status.kind == ExitStatus::Kind::signalled) {
      say("the agent (pid " + std::to_string(agent) + ") was killed by " + status.describe() + "; " + outcome(clean));
    }
    if (clean) {
      standby.reset();
      if (auto const death_notice = page.death_notice()) {
        deliver(*death_notice, kDeathNoticeLimit);
      }
    }
    ports.take();
    hold_for(ports.hold());
    return status.shell_code();
  }

  void guard_lease() {
    bool const killed_before = guard.killed;
    auto const step = look(guard, page.lease(), Clock::now(), page.terms());
    guard = step.next;
    if (step.what == Enforce::kill) {
      page.count_kill();
      bool const any = repeat(SIGKILL);
      if (any && !killed_before) {
        say("the lease of this node has run out, and the agent (pid " + std::to_string(agent) +
            ") has had no new one: its frozen workers are killed");
      }
    } else if (step.what == Enforce::freeze) {
      repeat(SIGSTOP);
    } else if (step.what == Enforce::thaw && !page.frozen()) {
      signal_descendants(agent, SIGCONT);
      auto const until = page.lease();  // we may have been suspended here and thawed workers whose lease is over again
      if (page.frozen() || (until && *until <= Clock::now())) {
        repeat(SIGSTOP);
      }
    }
    itimerspec when{};
    if (guard.wake) {
      auto const at = std::max<std::int64_t>(guard.wake->time_since_epoch().count(), 1);
      when.it_value = {at / kSecond, at % kSecond};
    }
    timerfd_settime(timer.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  }

  // Until no process takes it. A process that forks faster than that is signalled at the next look.
  bool repeat(int signal) const {
    bool any = false;
    for (int round = 0; round < kRounds && signal_descendants(agent, signal) > 0; ++round) {
      any = true;
      timespec const pause{0, 1'000'000};
      nanosleep(&pause, nullptr);
    }
    return any;
  }

  /// The agent's status once it has ended.
  std::optional<ExitStatus> take_signals() {
    std::optional<ExitStatus> ended;
    while (auto const info = signals.read()) {
      if (info->signal == SIGCHLD) {
        if (auto const status = reap_agent(agent)) {
          ended = status;
        }
      } else if (!ended && passes_on(*info)) {
        page.note_sender(
            {info->sender, info->uid, name_of(info->sender)});  // at once, because kill(1) ends after sending
        kill(agent, info->signal);
      }
    }
    return ended;
  }

  int run() {
    for (;;) {
      std::array<pollfd, 4> watched{
          {{signals.fd(), POLLIN, 0}, {timer.get(), POLLIN, 0}, {page.bell(), POLLIN, 0}, {ports.fd(), POLLIN, 0}}};
      poll(watched.data(), watched.size(), -1);
      if (auto const status = take_signals()) {
        return finish(*status);
      }
      if (watched[2].revents != 0) {
        page.answer();
      }
      if (watched[3].revents != 0) {
        ports.take();
      }
      if (watched[1].revents != 0 || watched[2].revents != 0) {
        guard_lease();
      }
    }
  }
};

int agent_side(std::function<int(AgentSide const&)> const& agent_main, AgentSide const& side) {
  become_subreaper();
  return agent_main(side);
}

}  // namespace

Result<void> PortKeeper::keep(int listener, Millis hold) {
  kept_.push_back(inode_of(listener));
  hold_ = hold;
  return send_hold(channel_.get(), hold, listener) >= 0
             ? Result<void>()
             : fail(Errc::io, "cannot give a socket to the parent process", errno);
}

void PortKeeper::release() {
  kept_.clear();
  static_cast<void>(send_hold(channel_.get(), Millis{0}, -1));  // if it fails they are held in vain
}

// Goes by the kernel's list of descriptors, because other threads own them.
void PortKeeper::hang_up_on_all() const {
  std::error_code failed;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
    int const fd = std::atoi(entry.path().filename().c_str());
    if (is_tcp(fd) && std::find(kept_.begin(), kept_.end(), inode_of(fd)) == kept_.end()) {
      ::shutdown(fd, SHUT_RDWR);
    }
  }
}

void KeptPorts::take() {
  for (;;) {
    Words words{};
    UniqueFd socket;
    auto const n = receive_packet(channel_.get(), words, socket, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
      return;
    }
    if (n <= 0) {
      channel_.reset();
      return;
    }
    if (!socket) {
      sockets_.clear();
      continue;
    }
    hold_ = Millis{std::bit_cast<std::int64_t>(words)};
    sockets_.push_back(std::move(socket));
    if (sockets_.size() > kMost) {
      sockets_.pop_front();
    }
  }
}

Result<PortKeeping> keep_ports() {
  std::array<int, 2> ends{-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(Errc::io, "cannot make a channel to the parent process", errno);
  }
  return PortKeeping{std::make_shared<PortKeeper>(UniqueFd(ends[0])), KeptPorts(UniqueFd(ends[1]))};
}

void ensure_standard_descriptors() {
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR);  // NOLINT(android-cloexec-open): 0, 1 and 2 are meant to be inherited
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) {
    close(fd);
  }
}

Result<int> run_under_parent(std::function<int(AgentSide const&)> const& agent_main, UniqueFd standby) {
  ensure_standard_descriptors();
  auto page = SharedPage::make();
  AgentSide side;
  side.signals = signals_to_pass();
  side.interrupt_ignored = is_ignored(SIGINT);
  side.parent = getpid();
  block_signals(side.signals);
  block_signals(make_sigset({SIGCHLD}));
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
  std::signal(SIGCHLD, SIG_DFL);  // NOLINT(cert-err33-c): inherited as ignored, it would lose exit statuses
  become_subreaper();
  // If a shell has exec'ed us, its children are ours, but not to kill.
  std::vector<pid_t> const spare = children_of(getpid());
  sigset_t heard = side.signals;
  sigaddset(&heard, SIGCHLD);
  auto signals = SignalFd::open(heard);
  UniqueFd timer(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  // Only the parent holds the writing end, so its death is end of file. A pidfd would need Linux 5.3.
  Pipe life = make_pipe();
  auto keeping = keep_ports();
  side.parent_watch = std::move(life.read);
  if (!page || !signals || !timer || !side.parent_watch || !keeping) {
    return fail(Errc::io, "cannot watch the agent process", errno);
  }
  pid_t const agent = fork();
  if (agent < 0) {
    return fail(Errc::io, "cannot start the agent process", errno);
  }
  if (agent == 0) {
    signals = SignalFd();
    timer.reset();
    life.write.reset();
    side.page = &*page;
    side.standby = std::move(standby);
    side.keeper = std::move(keeping->agent);
    keeping->parent = {};
    return agent_side(agent_main, side);
  }
  keeping->agent.reset();
  Parent parent{
      agent, *page, std::move(standby), std::move(keeping->parent), spare, *std::move(signals), std::move(timer), {}};
  return parent.run();
}

Result<std::shared_ptr<PortKeeper>> start_port_holder() {
  auto keeping = keep_ports();
  if (!keeping) {
    return keeping.error();
  }
  pid_t const child = fork();
  if (child < 0) {
    return fail(Errc::io, "cannot start the process that holds ports", errno);
  }
  if (child > 0) {
    return std::move(keeping->agent);
  }
  block_signals(signals_to_pass());
  keeping->agent.reset();
  UniqueFd const nowhere(open("/dev/null", O_RDWR | O_CLOEXEC));
  dup2(nowhere.get(), STDIN_FILENO);  // a reader of our output must not wait for this process
  dup2(nowhere.get(), STDOUT_FILENO);
  auto& ports = keeping->parent;
  while (ports.fd() >= 0) {
    pollfd watched{ports.fd(), POLLIN, 0};
    poll(&watched, 1, -1);
    ports.take();
  }
  hold_for(ports.hold());
  _exit(0);
}

void sweep_and_exit(AgentSide const& side) {
  bool const clean = sweep_descendants(Clock::now() + kSweepLimit);
  say("the parent process of the agent (pid " + std::to_string(getpid()) + ") is gone; " + outcome(clean));
  if (auto const death_notice = clean ? side.page->death_notice() : std::nullopt) {
    deliver(*death_notice, kOwnDeathNoticeLimit);
  }
  if (auto const hold = side.keeper->hold(); hold > Millis{0}) {
    side.keeper->hang_up_on_all();
    hold_for(hold);
  }
  _exit(kExitParentGone);
}

}  // namespace cxxrun::os
