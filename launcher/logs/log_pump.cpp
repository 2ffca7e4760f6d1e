#include "launcher/logs/log_pump.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <unistd.h>
#include <unordered_map>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include "launcher/logs/console.hpp"
#include "launcher/logs/log_file.hpp"
#include "rendezvous/history/restarts.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

namespace asio = boost::asio;
using asio::posix::stream_descriptor;
using boost::system::error_code;

constexpr std::size_t kReadBytes = std::size_t{256} << 10;
constexpr std::size_t kWorthWaking = std::size_t{64} << 10;
constexpr Millis kGather{1};
constexpr std::size_t kLastBytes = 128;  // more than a debugger's prompt

struct Stream {
  Stream(asio::io_context& io, PumpStream p)
      : plan(std::move(p)), pipe(io, plan.fd.release()), filter(plan.prefix, plan.filters) {
    pipe.non_blocking(true);
  }
  PumpStream plan;
  stream_descriptor pipe;
  LogFile file;
  std::optional<ConsoleStream> shown;
  LogFile filtered;
  LineFilter filter;  ///< used while `filtered` is open
  Evidence evidence;
  std::string last;     ///< if words are not kept: the last kLastBytes of the stream, at most twice as many
  bool paused = false;  ///< not read, because its console is full
};

LastWords words_of(Stream const& s) {
  if (s.plan.keep_words) {
    return s.evidence.words();
  }
  bool const quits = trim(s.last).ends_with(rendezvous::kDebuggerQuits);
  return {"", quits ? std::string(rendezvous::kDebuggerQuits) : std::string()};
}

}  // namespace

/// Runs on the pump's thread, except the constructor, post(), mute() and consoles().
class LogPump::Pump {
 public:
  Pump(int console_out, int console_err) {
    stream_descriptor const first(*io_);  // makes Asio open its epoll now: later no descriptor may be left
    auto const wake = [io = io_, this] { asio::post(*io, [this] { resume(); }); };  // a console's thread may outlive us
    consoles_ = std::make_unique<Consoles>(console_out, console_err, wake);
  }

  template <class Command>
  void post(Command command) {
    asio::post(*io_, std::move(command));
  }

  /// The owner leaves the thread behind: from now on no callback is called.
  void mute() {
    std::lock_guard const lock(callback_mutex_);
    muted_ = true;
  }

  [[nodiscard]] Consoles& consoles() { return *consoles_; }

  void run() {
    while (!io_->stopped()) {
      if (readable_.empty()) {  // streams may have become readable in run_for() below
        due_ ? io_->run_one_for(*due_ - Clock::now()) : io_->run_one();
      }
      io_->poll();
      for (auto const id : std::exchange(readable_, {})) {
        on_readable(id);
      }
      push_staged();
      // At a slow rate, wait a moment and gather lines: otherwise each line costs a wake-up, and its writer and we
      // contend for the pipe's lock. The first line after a silence was carried at once, and posted work does not wait.
      if (auto const carried = std::exchange(carried_, 0); carried > 0 && carried < kWorthWaking) {
        io_->run_for(kGather);
      }
    }
  }

  void set_error_handler(std::function<void(std::string)> handler) { on_error_ = std::move(handler); }

  void add(std::uint64_t id, PumpStream plan) {
    auto const& stream = streams_.emplace(id, std::make_unique<Stream>(*io_, std::move(plan))).first->second;
    if (auto const& shown = stream->plan; shown.console) {
      stream->shown.emplace(
          consoles_->of(shown.to_stderr), id,
          ConsoleStreamOptions{shown.to_stderr, shown.rank, shown.prefix, shown.fold, shown.patience});
    }
    report_if(stream->file.open(stream->plan.file, stream->plan.rotation));
    report_if(stream->filtered.open(stream->plan.filtered, {}));
    watch(id, *stream);
  }

  void drain(std::uint64_t id, bool close, std::function<void(LastWords)> const& done) {
    if (auto const it = streams_.find(id); it != streams_.end()) {
      empty_pipe(id, *it->second);
      if (close) {
        end(id);
      }
    }
    LastWords words;
    if (auto const live = streams_.find(id); live != streams_.end()) {
      words = words_of(*live->second);
    } else if (auto const ended = words_.find(id); ended != words_.end()) {
      words = ended->second;
      if (close) {
        words_.erase(ended);
      }
    }
    push_staged();
    call_back(done, std::move(words));
  }

  void finish() {
    while (!streams_.empty()) {
      auto const id = streams_.begin()->first;
      empty_pipe(id, *streams_.begin()->second);
      end(id);
      push_staged();
    }
    consoles_->say_waiting();
    io_->stop();
  }

 private:
  template <class What>
  void call_back(std::function<void(What)> const& callback, What what) {
    std::lock_guard const lock(callback_mutex_);
    if (callback && !muted_) {
      callback(std::move(what));
    }
  }

  void report(Error const& error) { call_back(on_error_, error.message()); }

  void report_if(Result<void> const& result) {
    if (!result) {
      report(result.error());
    }
  }

  void carry_filtered(Stream& s, std::string_view bytes) {
    if (s.filtered.is_open()) {
      std::string lines;
      s.filter.feed(bytes, lines);
      report_if(s.filtered.append(lines));
    }
  }

  void watch(std::uint64_t id, Stream& s) {
    s.paused = false;
    s.pipe.async_wait(stream_descriptor::wait_read, [this, id](error_code const& error) {
      if (!error) {
        readable_.push_back(id);
      }
    });
  }

  void resume() {
    for (auto& [id, stream] : streams_) {
      if (stream->paused && !stream->shown->console().writer.full()) {
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
    if (s.shown && s.shown->console().staged.size() >= kConsoleFull) {
      push_staged();
    }
    if (s.shown && s.shown->console().writer.full()) {
      s.paused = true;
    } else if (read_once(s, kReadBytes) == 0U) {
      end(id);
    } else {
      watch(id, s);
    }
  }

  /// Returns the number of bytes carried, 0 at the end of the stream, nothing if the pipe is empty.
  std::optional<std::size_t> read_once(Stream& s, std::size_t most) {
    error_code error;
    auto const n = s.pipe.read_some(asio::buffer(buffer_.get(), std::min(most, kReadBytes)), error);
    if (error == asio::error::would_block) {
      return std::nullopt;
    }
    carried_ += n;
    carry(s, std::string_view(buffer_.get(), n));
    return n;
  }

  void carry(Stream& s, std::string_view bytes) {
    if (s.file.is_open()) {
      report_if(s.file.append(bytes));
    }
    carry_filtered(s, bytes);
    if (s.plan.keep_words) {
      s.evidence.feed(bytes, Clock::now());
    } else {
      s.last += bytes.substr(bytes.size() - std::min(bytes.size(), kLastBytes));
      s.last.erase(0, s.last.size() > 2 * kLastBytes ? s.last.size() - kLastBytes : 0);
    }
    if (s.shown) {
      s.shown->feed(bytes);
    }
  }

  /// Reads only the bytes that are in the pipe now: a writer that keeps writing must not hold up a drain for ever.
  void empty_pipe(std::uint64_t id, Stream& s) {
    stream_descriptor::bytes_readable available;
    error_code ignored;
    s.pipe.io_control(available, ignored);
    for (auto left = available.get(); left > 0;) {
      auto const n = read_once(s, left);
      if (n == 0U) {
        end(id);
      }
      if (n.value_or(0) == 0) {
        return;
      }
      left -= *n;
    }
  }

  void end(std::uint64_t id) {
    auto const it = streams_.find(id);
    if (it == streams_.end()) {
      return;
    }
    auto& s = *it->second;
    if (s.shown) {
      s.shown->end();
    }
    carry_filtered(s, "\n");
    words_.emplace(id, words_of(s));
    streams_.erase(it);
  }

  void push_staged() { due_ = consoles_->push(); }

  std::shared_ptr<asio::io_context> io_ = std::make_shared<asio::io_context>(1);
  asio::executor_work_guard<asio::io_context::executor_type> forever_{io_->get_executor()};
  std::unique_ptr<Consoles> consoles_;
  std::optional<TimePoint> due_;  ///< when the next held or unfinished line is to be shown
  std::mutex callback_mutex_;     ///< held during each callback
  bool muted_ = false;
  std::unordered_map<std::uint64_t, std::unique_ptr<Stream>> streams_;
  std::vector<std::uint64_t> readable_;
  std::map<std::uint64_t, LastWords> words_;  ///< last words of streams that have ended
  std::function<void(std::string)> on_error_;
  /// Not zeroed: its pages are touched only as far as workers write.
  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kReadBytes);
  std::size_t carried_ = 0;  ///< bytes carried since the last wait
};

LogPump::LogPump() : LogPump(STDOUT_FILENO, STDERR_FILENO) {}

LogPump::LogPump(int console_out, int console_err)
    : pump_(std::make_shared<Pump>(console_out, console_err)),
      thread_(std::make_unique<os::BoundedThread>("cxxrun-logs", [pump = pump_] { pump->run(); })) {}

LogPump::~LogPump() {
  try {
    finish(1000);
  } catch (...) {  // out of memory: the last lines are lost
    return;
  }
}

std::uint64_t LogPump::add(PumpStream stream) {
  auto const id = ++last_id_;
  if (thread_) {
    pump_->post([pump = pump_.get(), id, plan = std::move(stream)]() mutable { pump->add(id, std::move(plan)); });
  }
  return id;
}

void LogPump::drain(std::uint64_t id, bool close, std::function<void(LastWords words)> done) {
  pump_->post([pump = pump_.get(), id, close, call = std::move(done)] { pump->drain(id, close, call); });
}

void LogPump::say(std::string line) {
  line += '\n';
  if (!pump_->consoles().say(std::move(line))) {
    pump_->post([pump = pump_.get()] { pump->consoles().say_waiting(); });
  }
}

bool LogPump::finish(int deadline_ms) {
  if (!thread_) {
    return complete_;
  }
  auto const deadline = Clock::now() + Millis(deadline_ms);
  pump_->post([pump = pump_.get()] { pump->finish(); });
  complete_ = thread_->join_until(deadline);
  thread_.reset();
  if (!complete_) {
    pump_->mute();
  }
  complete_ = pump_->consoles().finish(deadline) && complete_;
  return complete_;
}

void LogPump::on_error(std::function<void(std::string)> handler) {
  pump_->post([pump = pump_.get(), call = std::move(handler)] { pump->set_error_handler(call); });
}

}  // namespace cxxrun::launcher
