#include "launcher/logs/log_pump.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>
#include <vector>

#include "launcher/logs/console_writer.hpp"
#include "launcher/logs/line_prefixer.hpp"
#include "launcher/logs/log_file.hpp"
#include "launcher/logs/tail_buffer.hpp"
#include "src/os/bounded_thread.hpp"
#include "src/os/fd.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kReadBytes = std::size_t{256} << 10;
constexpr std::uint64_t kWakeId = 0;
constexpr std::size_t kWorthWaking = std::size_t{64} << 10;
constexpr timespec kGather{0, 1'000'000};

/// One end of the stream's console and what was made for it since the last push.
struct Console {
  explicit Console(int fd, std::function<void()> const& wake) : writer(fd, wake) {}
  ConsoleWriter writer;
  std::string staged;
};

struct Stream {
  Stream(PumpStream p, Console* c)
      : plan(std::move(p)),
        pipe(plan.fd),
        console(c),
        prefixer(plan.prefix, kLongestLine, c != nullptr && c->writer.is_terminal() ? Return::redraws : Return::byte) {}
  PumpStream plan;
  os::UniqueFd pipe;
  os::UniqueFd file;
  Console* console;  ///< nullptr: not shown
  LinePrefixer prefixer;
  TailBuffer tail;
  bool paused = false;  ///< not in epoll, because its console is full
};

class Pump;
using Command = std::function<void(Pump&)>;

/// What the callers' threads put in and the pump's thread takes out.
struct Mailbox {
  os::UniqueFd wake{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex mutex;
  std::vector<Command> commands;

  std::mutex callback_mutex;  ///< held during each callback
  bool muted = false;         ///< the owner has gone on without the thread: no callback may come any more

  void ring() const { eventfd_write(wake.get(), 1); }
  void call_back(std::function<void()> const& callback) {
    std::lock_guard const lock(callback_mutex);
    if (!muted) {
      callback();
    }
  }
  void post(Command command) {
    {
      std::lock_guard const lock(mutex);
      commands.push_back(std::move(command));
    }
    ring();
  }
};

/// The pump's thread: everything here but the constructor is called on it alone.
class Pump {
 public:
  Pump(std::shared_ptr<Mailbox> mailbox, std::array<std::shared_ptr<Console>, 2> consoles)
      : mailbox_(std::move(mailbox)),
        consoles_(std::move(consoles)),
        buffer_(std::make_unique_for_overwrite<char[]>(kReadBytes)) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = kWakeId;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, mailbox_->wake.get(), &event) != 0) {
      throw std::system_error(errno, std::generic_category(), "cannot start the log pump");
    }
  }

  void run() {
    std::array<epoll_event, 64> events{};
    while (!finished_) {
      int const n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < n; ++i) {
        auto const id = events[static_cast<std::size_t>(i)].data.u64;
        if (id == kWakeId) {
          on_wake();
        } else {
          on_readable(id);
        }
      }
      push_staged();
      if (carried_ > 0 && carried_ < kWorthWaking) {
        let_lines_gather();
      }
      carried_ = 0;
    }
  }

  void set_error_handler(std::function<void(std::string)> handler) { on_error_ = std::move(handler); }

  void add(std::uint64_t id, PumpStream plan) {
    auto* const console = plan.console ? consoles_[plan.to_stderr ? 1 : 0].get() : nullptr;
    auto stream = std::make_unique<Stream>(std::move(plan), console);
    auto& s = *stream;
    int const flags = fcntl(s.pipe.get(), F_GETFL);
    fcntl(s.pipe.get(), F_SETFL, flags | O_NONBLOCK);
    if (!s.plan.file.empty()) {
      if (auto file = open_log_file(s.plan.file)) {
        s.file = std::move(file).value();
      } else {
        report(file.error());
      }
    }
    streams_.emplace(id, std::move(stream));
    watch(id, s);
  }

  void drain(std::uint64_t id, bool close, std::function<void(std::string)> const& done) {
    if (auto const it = streams_.find(id); it != streams_.end()) {
      empty_pipe(id, *it->second);
      if (close) {
        end(id);
      }
    }
    std::string tail;
    if (auto const live = streams_.find(id); live != streams_.end()) {
      tail = live->second->tail.text();
    } else if (auto const ended = tails_.find(id); ended != tails_.end()) {
      tail = ended->second;
      if (close) {
        tails_.erase(ended);
      }
    }
    push_staged();
    mailbox_->call_back([&] { done(std::move(tail)); });
  }

  void finish() {
    while (!streams_.empty()) {
      auto const id = streams_.begin()->first;
      empty_pipe(id, *streams_.begin()->second);
      end(id);
      push_staged();
    }
    finished_ = true;
  }

 private:
  void report(Error const& error) const {
    if (on_error_) {
      mailbox_->call_back([&] { on_error_(error.message()); });
    }
  }

  /// Writers of single lines cost a wake-up per line, and fight us for the pipe's lock, unless the next look comes
  /// a little later. The first line after a silence was carried at once; commands end the wait.
  void let_lines_gather() const {
    pollfd wake{mailbox_->wake.get(), POLLIN, 0};
    ppoll(&wake, 1, &kGather, nullptr);
  }

  void on_wake() {
    eventfd_t count = 0;
    eventfd_read(mailbox_->wake.get(), &count);
    std::vector<Command> commands;
    {
      std::lock_guard const lock(mailbox_->mutex);
      commands.swap(mailbox_->commands);
    }
    for (auto const& command : commands) {
      if (finished_) {
        return;
      }
      command(*this);
    }
    resume();
  }

  void watch(std::uint64_t id, Stream& s) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, s.pipe.get(), &event);
    s.paused = false;
  }

  /// Taken out of epoll altogether: a hang-up is reported even for a stream that asks for no events.
  void pause(Stream& s) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, s.pipe.get(), nullptr);
    s.paused = true;
  }

  void resume() {
    for (auto& [id, stream] : streams_) {
      if (stream->paused && !stream->console->writer.full()) {
        watch(id, *stream);
      }
    }
  }

  void on_readable(std::uint64_t id) {
    auto const it = streams_.find(id);
    if (it == streams_.end()) {
      return;
    }
    auto& s = *it->second;
    if (s.console != nullptr && s.console->staged.size() >= kConsoleFull) {
      push_staged();
    }
    if (s.console != nullptr && s.console->writer.full()) {
      pause(s);
    } else if (read_once(s, kReadBytes) == 0) {
      end(id);
    }
  }

  /// Bytes carried; 0 at the end of the stream, -1 when there is nothing now.
  ssize_t read_once(Stream& s, std::size_t most) {
    ssize_t n = -1;
    do {
      n = read(s.pipe.get(), buffer_.get(), std::min(most, kReadBytes));
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
      carried_ += static_cast<std::size_t>(n);
      carry(s, std::string_view(buffer_.get(), static_cast<std::size_t>(n)));
    } else if (n < 0 && errno != EAGAIN) {
      return 0;
    }
    return n;
  }

  void carry(Stream& s, std::string_view bytes) {
    if (s.file) {
      if (auto const written = append_to_log(s.file, s.plan.file, bytes); !written) {
        s.file.reset();
        report(written.error());
      }
    }
    if (s.plan.keep_tail) {
      s.tail.feed(bytes);
    }
    if (s.console != nullptr) {
      s.prefixer.feed(bytes, s.console->staged);
    }
  }

  /// Reads what is in the pipe now, and not what a writer adds meanwhile: a flood must not keep a drain for ever.
  void empty_pipe(std::uint64_t id, Stream& s) {
    int available = 0;
    if (ioctl(s.pipe.get(), FIONREAD, &available) != 0) {
      available = 0;
    }
    while (available > 0) {
      auto const n = read_once(s, static_cast<std::size_t>(available));
      if (n == 0) {
        end(id);
      }
      if (n <= 0) {
        return;
      }
      available -= static_cast<int>(n);
    }
  }

  void end(std::uint64_t id) {
    auto const it = streams_.find(id);
    if (it == streams_.end()) {
      return;
    }
    auto& s = *it->second;
    if (s.console != nullptr) {
      s.prefixer.flush(s.console->staged);
    }
    if (s.plan.keep_tail) {
      tails_.emplace(id, s.tail.text());
    }
    if (!s.paused) {
      // Explicitly: a child between fork and exec may share the pipe, and then close does not take it out.
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, s.pipe.get(), nullptr);
    }
    streams_.erase(it);
  }

  void push_staged() {
    for (auto const& console : consoles_) {
      console->writer.push(console->staged);
    }
  }

  std::shared_ptr<Mailbox> mailbox_;
  std::array<std::shared_ptr<Console>, 2> consoles_;  ///< stdout, stderr; the same one when both lead to one place
  os::UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  std::unordered_map<std::uint64_t, std::unique_ptr<Stream>> streams_;
  std::map<std::uint64_t, std::string> tails_;  ///< of streams that have ended
  std::function<void(std::string)> on_error_;
  std::unique_ptr<char[]> buffer_;  // not filled: its pages are touched only as far as workers write
  std::size_t carried_ = 0;         ///< bytes since the last wait
  bool finished_ = false;
};

}  // namespace

struct LogPump::Impl {
  std::shared_ptr<Mailbox> mailbox = std::make_shared<Mailbox>();
  std::array<std::shared_ptr<Console>, 2> consoles;
  std::unique_ptr<os::BoundedThread> thread;
  std::atomic<std::uint64_t> last_id = kWakeId;
  bool complete = true;  ///< after finish: nothing was dropped
};

LogPump::LogPump() : LogPump(STDOUT_FILENO, STDERR_FILENO) {}

LogPump::LogPump(int console_out, int console_err) : impl_(std::make_unique<Impl>()) {
  auto const wake = [mailbox = impl_->mailbox] { mailbox->ring(); };
  auto& [out, err] = impl_->consoles;
  out = std::make_shared<Console>(console_out, wake);
  // One writer for `2>&1`: keeps the order between the two and does not cut into each other's lines.
  err = same_console(console_out, console_err) ? out : std::make_shared<Console>(console_err, wake);
  auto pump = std::make_shared<Pump>(impl_->mailbox, impl_->consoles);
  impl_->thread = std::make_unique<os::BoundedThread>("cxxrun-logs", [pump = std::move(pump)] { pump->run(); });
}

LogPump::~LogPump() {
  finish(1000);
}

std::uint64_t LogPump::add(PumpStream stream) {
  auto const id = ++impl_->last_id;
  if (!impl_->thread) {
    os::UniqueFd const unused(stream.fd);
    return id;
  }
  impl_->mailbox->post([id, plan = std::move(stream)](Pump& pump) { pump.add(id, plan); });
  return id;
}

void LogPump::drain(std::uint64_t id, bool close, std::function<void(std::string tail)> done) {
  impl_->mailbox->post([id, close, call = std::move(done)](Pump& pump) { pump.drain(id, close, call); });
}

void LogPump::say(std::string line) {
  line += '\n';
  impl_->consoles[1]->writer.push(line);
}

bool LogPump::finish(int deadline_ms) {
  if (!impl_->thread) {
    return impl_->complete;
  }
  auto const deadline = Clock::now() + Millis(deadline_ms);
  impl_->mailbox->post([](Pump& pump) { pump.finish(); });
  impl_->complete = impl_->thread->join_until(deadline);
  impl_->thread.reset();
  if (!impl_->complete) {
    std::lock_guard const lock(impl_->mailbox->callback_mutex);
    impl_->mailbox->muted = true;
  }
  for (auto const& console : impl_->consoles) {
    impl_->complete = console->writer.finish(deadline) && impl_->complete;
  }
  return impl_->complete;
}

void LogPump::on_error(std::function<void(std::string)> handler) {
  impl_->mailbox->post([call = std::move(handler)](Pump& pump) { pump.set_error_handler(call); });
}

}  // namespace cxxrun::launcher
