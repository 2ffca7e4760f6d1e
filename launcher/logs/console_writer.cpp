#include "launcher/logs/console_writer.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <limits.h>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "src/base/os/fd.hpp"
#include "src/base/os/thread.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kPiece = std::size_t{64} << 10;
/// Time for the thread to notice that it should give up.
constexpr Millis kGiveUp{100};
/// How long a full disk is not tried again.
constexpr Millis kWithoutRoom{200};
/// A buffer that has grown beyond this is freed after use.
constexpr std::size_t kUsualBuffer = 4 * kConsoleFull;

enum class Kind { pipe, terminal, socket, file, other };

/// A descriptor on the console, and how to write to it.
struct Target {
  os::UniqueFd fd;
  Kind kind = Kind::other;
  bool may_block = true;  ///< a write may wait for the reader: poll first
};

Target open_target(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) {
    return {};
  }
  Target target;
  bool const fifo = S_ISFIFO(status.st_mode);
  if (S_ISSOCK(status.st_mode)) {
    target.kind = Kind::socket;
  } else if (fifo || isatty(fd) != 0) {
    target.kind = fifo ? Kind::pipe : Kind::terminal;
  }
  if (fifo || S_ISCHR(status.st_mode)) {
    auto const path = "/proc/self/fd/" + std::to_string(fd);
    target.fd.reset(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    target.may_block = !target.fd;
  }
  if (!target.fd) {
    target.fd.reset(fcntl(fd, F_DUPFD_CLOEXEC, 3));
  }
  if (S_ISREG(status.st_mode)) {
    target.kind = Kind::file;
    target.may_block = false;  // poll says nothing about files
  }
  return target;
}

}  // namespace

std::size_t next_piece(std::string_view lines) {
  if (lines.size() <= PIPE_BUF) {
    return lines.size();
  }
  if (auto const* end = static_cast<char const*>(memrchr(lines.data(), '\n', PIPE_BUF)); end != nullptr) {
    return static_cast<std::size_t>(end - lines.data()) + 1;
  }
  auto const line_end = lines.substr(0, kPiece).find('\n');
  return line_end == std::string_view::npos ? std::min(lines.size(), kPiece) : line_end + 1;
}

struct ConsoleWriter::Impl {
  Target target;  ///< owned by the thread once it runs
  Kind kind;      ///< kind of the target at the start
  std::function<void()> on_room;
  os::UniqueFd abandon{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};  ///< readable: stop waiting for the console
  std::atomic<bool> abandoned = false;
  std::unique_ptr<os::BoundedThread> thread;

  std::mutex mutex;
  std::condition_variable changed;
  std::string queue;        ///< whole lines that the thread has not taken yet
  std::size_t dropped = 0;  ///< bytes dropped since the last line that says so
  bool disk_full = false;   ///< they found no room on the disk, where the last line may be cut
  TimePoint try_again{};    ///< until then a disk without room drops everything
  bool starved = false;     ///< full() has returned true: on_room is due
  bool closing = false;
  bool dead = false;  ///< the console is gone: discard output
  bool lost = false;  ///< output has been dropped

  void run();
  bool write_all(std::string_view& lines);
  void write_here(TimePoint until);
  bool wait_for_room() const;
  [[nodiscard]] ssize_t write_some(std::string_view piece) const;
};

void ConsoleWriter::Impl::run() {
  std::string batch;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return !queue.empty() || closing; });
    if (queue.empty()) {
      target.fd.reset();  // the console's reader sees the end of file at once
      return;
    }
    batch.swap(queue);
    bool const tell = std::exchange(starved, false);
    lock.unlock();
    if (tell) {
      on_room();
    }
    std::string_view rest = batch;
    bool const written = write_all(rest);
    bool const no_room = !written && !abandoned && (errno == ENOSPC || errno == EDQUOT);
    auto const left = rest.size();
    batch.clear();
    if (batch.capacity() > kUsualBuffer) {
      batch.shrink_to_fit();
    }
    lock.lock();
    if (no_room) {  // somebody may make room: go on
      dropped += left;
      disk_full = lost = true;
      try_again = Clock::now() + kWithoutRoom;
    } else if (!written) {
      dead = true;
      lost = lost || abandoned;
      queue.clear();
      if (std::exchange(starved, false)) {
        on_room();
      }
    }
  }
}

/// False: the rest, which `lines` is then, cannot be written: the console is gone, its disk is full (errno), or
/// finish() has given up.
bool ConsoleWriter::Impl::write_all(std::string_view& lines) {
  bool const narrow = target.kind == Kind::pipe || target.kind == Kind::terminal || target.may_block;
  while (!lines.empty()) {
    if (abandoned || (target.may_block && !wait_for_room())) {
      return false;
    }
    auto const n = write_some(lines.substr(0, narrow ? next_piece(lines) : std::min(lines.size(), kPiece)));
    if (n >= 0) {
      lines.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      if (!wait_for_room()) {
        return false;
      }
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

/// Writes on the caller's thread what the console takes until then. Used if no thread can be started (a limit).
void ConsoleWriter::Impl::write_here(TimePoint until) {
  while (!queue.empty() && !dead) {
    pollfd room{target.fd.get(), POLLOUT, 0};
    if (poll(&room, 1, os::poll_time(until)) <= 0 && Clock::now() >= until) {
      return;
    }
    auto const n = write_some(std::string_view(queue).substr(0, next_piece(queue)));
    if (n >= 0) {
      queue.erase(0, static_cast<std::size_t>(n));
    } else if (errno != EAGAIN && errno != EINTR) {
      dead = true;
      queue.clear();
    }
  }
}

ssize_t ConsoleWriter::Impl::write_some(std::string_view piece) const {
  if (target.kind == Kind::socket) {
    return send(target.fd.get(), piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  return write(target.fd.get(), piece.data(), piece.size());
}

/// Blocks until the console takes output. False: finish() has given up.
bool ConsoleWriter::Impl::wait_for_room() const {
  std::array<pollfd, 2> fds{{{target.fd.get(), POLLOUT, 0}, {abandon.get(), POLLIN, 0}}};
  while (poll(fds.data(), fds.size(), -1) < 0 && errno == EINTR) {
  }
  return fds[1].revents == 0;
}

ConsoleWriter::ConsoleWriter(int fd, std::function<void()> on_room) : impl_(std::make_shared<Impl>()) {
  impl_->target = open_target(fd);
  impl_->on_room = std::move(on_room);
  impl_->kind = impl_->target.kind;
  impl_->dead = !impl_->target.fd;
}

ConsoleWriter::~ConsoleWriter() {
  finish(Clock::now());
}

bool ConsoleWriter::is_terminal() const {
  return impl_->kind == Kind::terminal;
}

bool ConsoleWriter::shows_parts_of_lines() const {
  return impl_->kind == Kind::terminal || impl_->kind == Kind::file;
}

/// Called with the first line. At the launcher's start each thread would delay the workers.
bool ConsoleWriter::start_thread() {
  impl_->thread = os::BoundedThread::start("cxxrun-console", [impl = impl_] { impl->run(); });
  return impl_->thread != nullptr;  // if it failed, the next push tries again
}

void ConsoleWriter::push(std::string& lines) {
  if (lines.empty()) {
    return;
  }
  std::lock_guard const lock(impl_->mutex);
  if (impl_->dead || impl_->closing) {
    lines.clear();
    return;
  }
  bool const waits = Clock::now() < impl_->try_again;
  if (waits || (!impl_->queue.empty() && impl_->queue.size() + lines.size() > kConsoleMost)) {
    impl_->dropped += lines.size();
    impl_->lost = true;
    lines.clear();
    return;
  }
  bool const idle = impl_->queue.empty();
  if (impl_->dropped > 0) {
    bool const disk = std::exchange(impl_->disk_full, false);
    impl_->queue.append(disk ? "\ncxxrun: " : "cxxrun: ")
        .append(std::to_string(std::exchange(impl_->dropped, 0)))
        .append(" bytes of output are missing here: ")
        .append(disk ? "the disk was full\n" : "the console was not read while workers ended\n");
  }
  if (!impl_->thread && !start_thread()) {
    impl_->queue.append(std::exchange(lines, {}));
    impl_->write_here(Clock::now());
    return;
  }
  if (impl_->queue.empty()) {
    impl_->queue.swap(lines);
  } else {
    impl_->queue.append(lines);
  }
  lines.clear();
  if (idle) {
    impl_->changed.notify_one();
  }
}

bool ConsoleWriter::full() {
  std::lock_guard const lock(impl_->mutex);
  // Without a thread nothing would call on_room.
  bool const now = impl_->thread && impl_->queue.size() >= kConsoleFull;
  impl_->starved = impl_->starved || now;
  return now;
}

bool ConsoleWriter::finish(TimePoint deadline) {
  {
    std::lock_guard const lock(impl_->mutex);
    impl_->closing = true;
    impl_->changed.notify_one();
  }
  // Moved out of impl_, which the thread shares. A second finish() finds no thread.
  auto const thread = std::exchange(impl_->thread, nullptr);
  if (thread && !thread->join_until(deadline)) {
    // A thread that waits for the reader gives up now. Only one that is stuck in the kernel is left behind.
    impl_->abandoned = true;
    eventfd_write(impl_->abandon.get(), 1);
    if (!thread->join_until(Clock::now() + kGiveUp)) {
      std::lock_guard const lock(impl_->mutex);
      impl_->lost = true;
    }
  }
  std::lock_guard const lock(impl_->mutex);
  if (!thread && !impl_->abandoned) {
    impl_->write_here(deadline);
    impl_->lost = impl_->lost || !impl_->queue.empty();
  }
  return !impl_->lost;
}

bool same_console(int a, int b) {
  struct stat one {};
  struct stat two {};
  return fstat(a, &one) == 0 && fstat(b, &two) == 0 && one.st_dev == two.st_dev && one.st_ino == two.st_ino;
}

}  // namespace cxxrun::launcher
