#include "src/os/log.hpp"

#include <memory>
#include <unistd.h>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#pragma GCC diagnostic pop

namespace cxxrun {
namespace {

std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance;
  return instance;
}

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warn: return spdlog::level::warn;
    case Level::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

}  // namespace

std::optional<Level> log_level(std::string_view name) {
  if (name == "debug") {
    return Level::debug;
  }
  if (name == "info") {
    return Level::info;
  }
  if (name == "warn") {
    return Level::warn;
  }
  return name == "error" ? std::optional(Level::error) : std::nullopt;
}

void log_setup(std::string const& who, Level least) {
  spdlog::sink_ptr sink;
  if (isatty(STDERR_FILENO) != 0) {
    sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>();
  } else {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  }
  logger() = std::make_shared<spdlog::logger>(who, std::move(sink));
  logger()->set_pattern("%H:%M:%S.%e %n: %^%l%$: %v");
  logger()->set_level(to_spdlog(least));
}

void log(Level level, std::string_view text) noexcept {
  if (auto const& to = logger()) {
    to->log(to_spdlog(level), "{}", text);
  }
}

}  // namespace cxxrun
