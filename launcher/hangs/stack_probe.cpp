#include "launcher/hangs/stack_probe.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <memory>
#include <unistd.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include "launcher/hangs/hang_text.hpp"
#include "launcher/workers/supervisor.hpp"
#include "src/os/fd.hpp"
#include "src/os/spawn.hpp"
#include "src/os/timer.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::seconds kAfterKill{2};  // a debugger that SIGKILL does not end is not waited for
constexpr std::size_t kMostBytes = std::size_t{256} * 1024;

class Probe : public std::enable_shared_from_this<Probe> {
 public:
  Probe(asio::io_context& io, os::UniqueFd output, pid_t debugger, std::function<void(std::string)> done)
      : output_(io, output.release()), timer_(io), debugger_(debugger), done_(std::move(done)) {}

  void begin(Supervisor& supervisor) {
    supervisor.tend(debugger_, [self = shared_from_this()] { self->ended(); });
    timer_.after(kPatience, [this] { too_slow(); });
    await_output();
  }

 private:
  void await_output() {
    output_.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](error_code const& error) {
      if (!error && self->read_some()) {
        self->await_output();
      }
    });
  }

  /// What there is; false at the end. What is too much is read and forgotten, so that the debugger can end.
  bool read_some() {
    for (;;) {
      std::string part(4096, '\0');
      ssize_t const got = read(output_.native_handle(), part.data(), part.size());
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got <= 0) {
        return got < 0 && errno == EAGAIN;
      }
      text_.append(part, 0, std::min(static_cast<std::size_t>(got), kMostBytes - text_.size()));
    }
  }

  void too_slow() {
    kill(-debugger_, SIGKILL);  // its session; it is not reaped, so the number is its own
    text_ += "\ngdb took longer than 10 s\n";
    timer_.after(kAfterKill, [this] { finish(); });
  }

  void ended() {
    (void)read_some();
    finish();
  }

  void finish() {
    timer_.cancel();
    error_code ignored;
    output_.close(ignored);
    if (auto const done = std::exchange(done_, {})) {
      done(text_.empty() ? "gdb wrote nothing\n" : std::move(text_));
    }
  }

  asio::posix::stream_descriptor output_;
  os::Timer timer_;
  pid_t debugger_;
  std::function<void(std::string)> done_;
  std::string text_;
};

}  // namespace

void probe_stack(asio::io_context& io, Supervisor& supervisor, pid_t pid, Environment environment,
                 std::function<void(std::string written)> done) {
  environment.erase("DEBUGINFOD_URLS");  // it would fetch symbols over the network
  auto started = os::spawn_piped(debugger_command(pid), as_words(environment));
  if (!started) {
    asio::post(io, [done = std::move(done), why = "none: " + started.error().message() + "\n"] { done(why); });
    return;
  }
  fcntl(started->output.get(), F_SETFL, O_NONBLOCK);
  std::make_shared<Probe>(io, std::move(started->output), started->pid, std::move(done))->begin(supervisor);
}

}  // namespace cxxrun::launcher
