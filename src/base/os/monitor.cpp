#include "src/base/os/monitor.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/timerfd.h>

#include "src/base/core/exit_codes.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/children.hpp"
#include "src/base/os/limits.hpp"
#include "src/base/os/poll_time.hpp"
#include "src/base/os/process_info.hpp"

namespace cxxrun::os {
namespace {

constexpr int kExitParentGone = 128 + SIGKILL;
constexpr std::chrono::seconds kSweepLimit{5};
constexpr Millis kDeathNoticeLimit{1000};
// The agent may be among its own recipients, and does not answer itself any more.
constexpr Millis kOwnDeathNoticeLimit{200};
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr int kRounds = 20;

// What users and schedulers send. Faults, job control and SIGALRM keep their meaning.
sigset_t signals_to_pass() {
  sigset_t set = make_sigset({SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGPWR});
  if (!is_ignored(SIGHUP)) {  // nohup: blocking an ignored signal would bring it back
    sigaddset(&set, SIGHUP);
  }
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) {
    sigaddset(&set, signal);
  }
  return set;
}

// One write: the line stays whole beside the workers' output. No log is set up in the parent.
void say(std::string const& text) {
  std::string const line = "cxxrun: " + text + "\n";
  ssize_t const written = write(STDERR_FILENO, line.data(), line.size());
  static_cast<void>(written);
}

// Until a signal says that this is to end, all of which are blocked.
void hold_for(Millis time) {
  if (time <= Millis{0}) {
    return;
  }
  say("the port of the store is held for " + seconds_text(time) +
      ": nobody else is to answer workers of other nodes there");
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

// What the parent knows. No threads: signals, the lease's timer and the bell are descriptors to wait for.
struct Parent {
  pid_t agent;
  SharedPage const& page;
  UniqueFd standby;
  KeptPorts ports;
  std::vector<pid_t> const& spare;
  SignalFd signals;
  UniqueFd timer;  // absolute, and of Clock: what expires while the machine is suspended is due when it is back
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
            ") has had no new one for its workers, which were frozen: they are killed");
      }
    } else if (step.what == Enforce::freeze) {
      repeat(SIGSTOP);
    } else if (step.what == Enforce::thaw && !page.frozen()) {
      signal_descendants(agent, SIGCONT);
      auto const until = page.lease();  // suspended just here, we would have set workers free for whom it is over again
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

  // Until nobody is left who could take it. What starts children faster than that meets the next look.
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
            {info->sender, info->uid, name_of(info->sender)});  // at once: kill(1) ends as soon as it has sent
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
  std::signal(SIGCHLD, SIG_DFL);  // NOLINT(cert-err33-c): inherited as ignored, exit statuses would be lost
  become_subreaper();
  // Children of a shell that executed us in its place are not ours to kill.
  std::vector<pid_t> const spare = children_of(getpid());
  sigset_t heard = side.signals;
  sigaddset(&heard, SIGCHLD);
  auto signals = SignalFd::open(heard);
  UniqueFd timer(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  // Only the parent holds the end that writes: its death is the end of file. A pidfd would need Linux 5.3.
  std::array<int, 2> life{-1, -1};
  bool const piped = pipe2(life.data(), O_CLOEXEC) == 0;
  auto keeping = keep_ports();
  side.parent_watch.reset(life[0]);
  UniqueFd held(life[1]);
  if (!page || !signals || !timer || !piped || !keeping) {
    return fail(Errc::io, "cannot watch the agent process", errno);
  }
  pid_t const agent = fork();
  if (agent < 0) {
    return fail(Errc::io, "cannot start the agent process", errno);
  }
  if (agent == 0) {
    signals = SignalFd();
    timer.reset();
    held.reset();
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
    return fail(Errc::io, "cannot make a process that holds ports", errno);
  }
  if (child > 0) {
    return std::move(keeping->agent);
  }
  block_signals(signals_to_pass());
  keeping->agent.reset();
  UniqueFd const nowhere(open("/dev/null", O_RDWR | O_CLOEXEC));
  dup2(nowhere.get(), STDIN_FILENO);  // whoever reads what we print is not to wait for this process
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
