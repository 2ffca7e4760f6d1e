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
#include "src/core/time.hpp"
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

/// The debugger's process and our end of its output.
struct Begun {
  pid_t pid = 0;
  os::UniqueFd output;
  std::string why;  ///< there is none
};

Begun start_debugger(pid_t pid, Environment environment) {
  environment.erase("DEBUGINFOD_URLS");  // it would fetch symbols over the network
  os::SpawnRequest request;
  request.argv = debugger_command(pid);
  request.environment = as_words(environment);
  auto found = os::find_program(request.argv.front(), request.environment);
  if (found.error != 0) {
    return {0, {}, "none: there is no gdb in PATH here\n"};
  }
  request.path = std::move(found.path);
  int ends[2] = {-1, -1};  // NOLINT(modernize-avoid-c-arrays): pipe2's type
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return {0, {}, "none: no pipe for gdb\n"};
  }
  os::UniqueFd ours(ends[0]);
  os::UniqueFd const theirs(ends[1]);
  fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  request.out = theirs.get();
  request.err = theirs.get();
  auto const started = os::spawn(request);
  if (!started.ok()) {
    return {0, {}, "none: " + os::explain_failed_start("gdb", started.stage, started.error) + "\n"};
  }
  return {started.pid, std::move(ours), ""};
}

}  // namespace

void probe_stack(asio::io_context& io, Supervisor& supervisor, pid_t pid, Environment const& environment,
                 std::function<void(std::string written)> done) {
  auto begun = start_debugger(pid, environment);
  if (begun.pid == 0) {
    asio::post(io, [done = std::move(done), why = std::move(begun.why)] { done(why); });
    return;
  }
  std::make_shared<Probe>(io, std::move(begun.output), begun.pid, std::move(done))->begin(supervisor);
}

}  // namespace cxxrun::launcher
