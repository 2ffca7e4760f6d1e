// The launcher's own log: whole lines to stderr, in shells only. spdlog stays behind this header.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/core/level.hpp"

namespace cxxrun {

/// The level called "debug", "info", "warn" or "error"; nothing for anything else.
[[nodiscard]] std::optional<Level> log_level(std::string_view name);
/// Sets the name that prefixes each line ("cxxrun[host]") and the least level shown. Call once, before threads.
void log_setup(std::string const& who, Level least);
/// From now on lines (without their newline) go to `writer` instead of stderr, which may block when nobody reads it;
/// an empty function goes back to stderr. `writer` must not log, and may be called from any thread that logs.
void log_through(std::function<void(std::string line)> writer);
/// Writes one line. Thread-safe; never throws.
void log(Level level, std::string_view text) noexcept;

}  // namespace cxxrun
