#include "launcher/hangs/native_stack.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <memory>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include "launcher/workers/supervisor.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/spawn.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr Millis kAfterKill{2000};  // then a debugger that survives SIGKILL is not waited for
constexpr Millis kForDebugger = kDebuggerPatience - kAfterKill;
constexpr std::size_t kMostProbeBytes = std::size_t{256} * 1024;

/// A run of the debugger: collects its output, and kills it if it takes too long.
class Probe : public std::enable_shared_from_this<Probe> {
 public:
  Probe(asio::io_context& io, os::UniqueFd output, pid_t debugger, std::function<void(Result<std::string> const&)> done)
      : output_(io, output.release()), timer_(io), debugger_(debugger), done_(std::move(done)) {
    output_.non_blocking(true);
  }

  void begin(Supervisor& supervisor) {
    supervisor.tend(debugger_, [self = shared_from_this()] { self->ended(); });
    timer_.after(kForDebugger, [this] { too_slow(); });
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

  /// Reads what is available; false at the end. Excess output is read and dropped, so that the debugger can end.
  bool read_some() {
    std::array<char, 4096> part{};
    error_code error;
    while (!error) {
      auto const got = output_.read_some(asio::buffer(part), error);
      text_.append(part.data(), std::min(got, kMostProbeBytes - text_.size()));
    }
    return error == asio::error::would_block;
  }

  void too_slow() {
    kill(-debugger_, SIGKILL);  // its session; it is not reaped yet, so the pid is still its own
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
      done(text_.empty() ? std::string("gdb wrote nothing\n") : std::move(text_));
    }
  }

  asio::posix::stream_descriptor output_;
  os::Timer timer_;
  pid_t debugger_;
  std::function<void(Result<std::string> const&)> done_;
  std::string text_;
};

}  // namespace

void ask_debugger(asio::io_context& io, Supervisor& supervisor, std::vector<std::string> command,
                  Environment environment, std::function<void(Result<std::string> const&)> done) {
  environment.erase("DEBUGINFOD_URLS");  // gdb would fetch symbols over the network
  auto started = os::spawn_piped(std::move(command), as_words(environment));
  if (!started) {
    asio::post(io, [done = std::move(done), why = started.error()] { done(why); });
    return;
  }
  std::make_shared<Probe>(io, std::move(started->output), started->pid, std::move(done))->begin(supervisor);
}

}  // namespace cxxrun::launcher
