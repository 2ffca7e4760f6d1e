#include "src/base/os/log.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unistd.h>
#include <utility>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#pragma GCC diagnostic pop

#include "src/base/core/text.hpp"

namespace cxxrun {
namespace {

/// Writes to stderr, or to the writer of log_through.
class Outlet final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit Outlet(spdlog::sink_ptr direct) : direct_(std::move(direct)) {}

  void set_writer(std::function<void(std::string)> writer) {
    std::lock_guard<std::mutex> const lock(mutex_);
    writer_ = std::move(writer);
  }

 private:
  void sink_it_(spdlog::details::log_msg const& message) override {
    if (!writer_) {
      direct_->log(message);
      return;
    }
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::string text(line.data(), line.size());
    while (text.ends_with('\n')) {
      text.pop_back();
    }
    writer_(std::move(text));
  }
  void flush_() override { direct_->flush(); }
  void set_pattern_(std::string const& pattern) override {
    set_formatter_(std::make_unique<spdlog::pattern_formatter>(pattern));
  }
  void set_formatter_(std::unique_ptr<spdlog::formatter> formatter) override {
    direct_->set_formatter(formatter->clone());
    formatter_ = std::move(formatter);
  }

  spdlog::sink_ptr direct_;
  std::function<void(std::string)> writer_;
};

std::shared_ptr<Outlet> outlet;
std::shared_ptr<spdlog::logger> logger;

constexpr std::array<std::pair<std::string_view, spdlog::level::level_enum>, 4> kLevels{
    // by Level
    {{"debug", spdlog::level::debug},
     {"info", spdlog::level::info},
     {"warn", spdlog::level::warn},
     {"error", spdlog::level::err}}};

constexpr std::size_t kLongestLine = 8192;

spdlog::level::level_enum to_spdlog(Level level) {
  return kLevels[static_cast<std::size_t>(level)].second;
}

}  // namespace

bool os::stderr_takes_colour() {
  char const* const refused = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe): nothing changes it
  return isatty(STDERR_FILENO) != 0 && (refused == nullptr || std::string_view(refused).empty());
}

std::optional<Level> log_level(std::string_view name) {
  auto const* const found =
      std::find_if(kLevels.begin(), kLevels.end(), [name](auto const& level) { return level.first == name; });
  return found == kLevels.end() ? std::nullopt : std::optional(static_cast<Level>(found - kLevels.begin()));
}

void log_setup(std::string const& who, Level least) {
  spdlog::sink_ptr sink;
  bool const terminal = isatty(STDERR_FILENO) != 0;
  if (os::stderr_takes_colour()) {
    sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>();
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  outlet = std::make_shared<Outlet>(std::move(sink));
  logger = std::make_shared<spdlog::logger>(who, outlet);
  // A file may be read on another day and on another machine.
  logger->set_pattern(std::string(terminal ? "%H:%M:%S.%e" : "%Y-%m-%dT%H:%M:%S.%e%z") + " %n: %^%l%$: %v");
  logger->set_level(to_spdlog(least));
}

void log_through(std::function<void(std::string line)> writer) {
  if (outlet) {
    outlet->set_writer(std::move(writer));
  }
}

void log(Level level, std::string_view text) noexcept {
  try {
    if (logger) {
      logger->log(to_spdlog(level), "{}", printable(text, kLongestLine));  // `text` may quote a caller
    }
  } catch (...) {  // out of memory: drop this line and go on
    return;
  }
}

}  // namespace cxxrun
