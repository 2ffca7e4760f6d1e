#include "launcher/view/top.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "launcher/facts/environment.hpp"
#include "launcher/view/status_text.hpp"
#include "launcher/view/top_text.hpp"
#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/signals.hpp"
#include "src/base/os/system.hpp"
#include "src/base/os/thread.hpp"

namespace cxxrun::launcher::view {
namespace {

constexpr Millis kRound{1000};
constexpr Millis kLate{2000};  // without an answer the screen says so
constexpr Millis kForAsker{50};
constexpr std::uint64_t kTailOnScreen = 8192;
constexpr int kSignalled = 128;

/// The terminal while it shows a screen. It is restored at the end, whatever ends this.
class Screen {
 public:
  Screen() {
    is_terminal_ = tcgetattr(STDIN_FILENO, &before_) == 0;
    enter();
  }
  ~Screen() { leave(); }
  Screen(Screen const&) = delete;
  Screen& operator=(Screen const&) = delete;

  void enter() {
    auto raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (is_terminal_) {
      (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    }
    (void)os::write_all(STDOUT_FILENO, "\x1b[?1049h\x1b[?25l\x1b[2J");
  }
  void leave() {
    (void)os::write_all(STDOUT_FILENO, "\x1b[?25h\x1b[?1049l");
    if (is_terminal_) {
      (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
    }
  }

 private:
  termios before_{};
  bool is_terminal_ = false;
};

void read_size(TopChoice& choice) {
  winsize size{};
  bool const known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
  choice.lines = known ? size.ws_row : 24;
  choice.columns = known ? size.ws_col : kColumns;
}

/// As SIGTSTP does by itself, and so not where nobody would wake it.
void stop_here() {
  auto const stop = os::make_sigset({SIGTSTP});
  (void)::raise(SIGTSTP);  // pending, since it is blocked
  (void)pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  (void)pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

struct Answers {
  Result<std::string> status = std::string();
  std::optional<Result<std::string>> log;
};

/// Asks on a thread, so that keys and signals need not wait for an answer.
class Asker {
 public:
  explicit Asker(Job job) : job_(std::move(job)) {}

  [[nodiscard]] int fd() const { return shared_->ready.get(); }
  [[nodiscard]] bool is_asking() const { return thread_ != nullptr; }
  /// `rank`: whose log is wanted, too. False: no thread can be made.
  bool ask(std::optional<std::uint32_t> rank) {
    thread_ = os::BoundedThread::start("cxxrun-top", [shared = shared_, job = job_, rank] {
      using What = live::Question::What;
      Answers answers;
      answers.status = view::ask(job, {What::status, 0, {}});
      if (rank && answers.status) {
        answers.log = view::ask(job, {What::logs, kTailOnScreen, {*rank}});
      }
      std::scoped_lock const lock(shared->mutex);
      shared->answers = std::move(answers);
      eventfd_write(shared->ready.get(), 1);
    });
    return thread_ != nullptr;
  }
  std::optional<Answers> take() {
    std::scoped_lock const lock(shared_->mutex);
    eventfd_t count = 0;
    (void)eventfd_read(shared_->ready.get(), &count);
    auto answers = std::exchange(shared_->answers, std::nullopt);
    if (answers) {
      thread_.reset();
    }
    return answers;
  }
  /// It may wait for an answer for seconds yet.
  void end() {
    if (thread_) {
      (void)thread_->join_until(Clock::now() + kForAsker);
    }
  }

 private:
  struct Shared {
    std::mutex mutex;
    std::optional<Answers> answers;
    os::UniqueFd ready{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  };
  Job job_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::unique_ptr<os::BoundedThread> thread_;
};

class Top {
 public:
  Top(Job const& job, os::SignalFd signals) : asker_(job), signals_(std::move(signals)) {
    read_size(choice_);
    colour_ = value_of(os::read_environment(), "NO_COLOR").empty();
  }

  /// The exit code. `why_` then has what is to be said.
  int run() {
    Screen screen;
    for (;;) {
      auto const now = Clock::now();
      if (!asker_.is_asking() && now >= next_) {
        asked_ = now;
        next_ = now + kRound;
        if (!asker_.ask(choice_.log && table_ ? std::optional(choice_.rank) : std::nullopt)) {
          why_ = "cannot make a thread";
          return kExitSystem;
        }
      }
      show();
      std::array<pollfd, 3> waits{{{STDIN_FILENO, POLLIN, 0}, {signals_.fd(), POLLIN, 0}, {asker_.fd(), POLLIN, 0}}};
      auto const until = asker_.is_asking() ? Clock::now() + kRound : next_;
      (void)os::retried([&] { return ::poll(waits.data(), waits.size(), os::poll_time(until)); });
      auto code = on_signals(screen);
      if (!code && waits[0].revents != 0) {
        code = on_keys();
      }
      if (!code && waits[2].revents != 0) {
        code = on_answers();
      }
      if (code) {
        asker_.end();
        return *code;
      }
    }
  }
  [[nodiscard]] std::string const& why() const { return why_; }

 private:
  void show() {
    auto const waited = Clock::now() - asked_;
    bool const late = asker_.is_asking() && waited > kLate;
    auto const note = late ? "no answer for " + elapsed_text(std::chrono::duration_cast<Millis>(waited)) : error_;
    std::vector<TopLine> const waiting{{(error_.empty() ? "waits for an answer" : error_).substr(0, choice_.columns)}};
    (void)os::write_all(STDOUT_FILENO, draw(table_ ? top_lines(*table_, choice_, tails_, note) : waiting, colour_));
  }

  std::optional<int> on_signals(Screen& screen) {
    while (auto const signal = signals_.read()) {
      if (signal->signal == SIGTSTP) {
        screen.leave();
        stop_here();
      } else if (signal->signal != SIGWINCH && signal->signal != SIGCONT) {
        return kSignalled + signal->signal;
      }
      // The size may have changed, and other programs have written to the terminal.
      screen.enter();
      read_size(choice_);
      press(Key::other);
    }
    return std::nullopt;
  }

  std::optional<int> on_keys() {
    std::array<char, 256> bytes{};
    auto const got = os::retried([&] { return ::read(STDIN_FILENO, bytes.data(), bytes.size()); });
    if (got <= 0) {
      return 0;  // the terminal has gone
    }
    typed_.append(bytes.data(), static_cast<std::size_t>(got));
    for (auto const key : take_keys(typed_)) {
      if (key == Key::quit) {
        return 0;
      }
      bool const looks_elsewhere = choice_.log;
      press(key);
      if (choice_.log != looks_elsewhere || (choice_.log && key != Key::other)) {
        tails_.clear();
        next_ = Clock::now();  // that log is wanted at once
      }
    }
    return std::nullopt;
  }

  std::optional<int> on_answers() {
    auto const answers = asker_.take();
    if (!answers) {
      return std::nullopt;
    }
    auto table = read_table(answers->status);
    if (!answers->status && answers->status.error().code == Errc::closed) {
      why_ = table_ ? "the agent that was asked has ended" : answers->status.error().context;
      return table_ ? 0 : kExitSystem;
    }
    error_ = table ? "" : table.error().context;
    if (table) {
      table_ = *std::move(table);
      press(Key::other);
    }
    if (answers->log && choice_.log) {
      auto read = *answers->log ? read_tails(**answers->log) : Items<Tail>{{}, {answers->log->error().context}};
      tails_ = std::move(read.items);
      error_ = error_.empty() && !read.errors.empty() ? read.errors.front() : error_;
    }
    return std::nullopt;
  }

  void press(Key key) { choice_ = table_ ? choose(choice_, key, *table_) : choice_; }

  Asker asker_;
  os::SignalFd signals_;
  bool colour_ = true;
  TopChoice choice_;
  std::optional<Table> table_;
  std::vector<Tail> tails_;
  std::string typed_;  ///< the begun sequence of a key
  std::string error_;  ///< why there is no newer table
  std::string why_;
  TimePoint asked_;
  TimePoint next_;  ///< when to ask again
};

}  // namespace

std::string objection_to_top() {
  auto const terminal = value_of(os::read_environment(), "TERM");
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
    return "top needs a terminal; for programs: cxxrunctl status --json";
  }
  return terminal.empty() || terminal == "dumb"
             ? "top needs a terminal on which it can go to a line (TERM=" + printable(terminal, 40) +
                   "); what it shows, once: cxxrunctl status"
             : "";
}

int show_top(Job const& job) {
  auto signals = os::SignalFd::open(os::make_sigset({SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH}));
  if (!signals) {
    std::fprintf(stderr, "cxxrunctl: %s\n", signals.error().message().c_str());
    return kExitSystem;
  }
  Top top(job, std::move(*signals));
  int const code = top.run();
  if (!top.why().empty()) {
    std::fprintf(stderr, "cxxrunctl: %s: %s\n", job.who.run_id.c_str(), top.why().c_str());
  }
  return code;
}

}  // namespace cxxrun::launcher::view
