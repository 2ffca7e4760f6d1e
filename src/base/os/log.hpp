// The launcher's own log: whole lines to stderr, in shells only. No other file includes spdlog.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/core/turn.hpp"

namespace cxxrun {

namespace os {
/// Whether messages on stderr may have colour: on a terminal, unless NO_COLOR is set and not empty (no-color.org).
[[nodiscard]] bool stderr_takes_colour();
}  // namespace os

/// The level of this name: "debug", "info", "warn" or "error".
[[nodiscard]] std::optional<Level> log_level(std::string_view name);
/// Sets the prefix of each line ("cxxrun[host]") and the lowest level shown. Call once, before threads.
void log_setup(std::string const& who, Level least);
/// From now on lines (without their newline) go to `writer` instead of stderr, which may block when nobody reads it. An
/// empty function restores stderr. `writer` must not log, and may be called from any thread that logs.
void log_through(std::function<void(std::string line)> writer);
/// Writes one line. Thread-safe; never throws.
void log(Level level, std::string_view text) noexcept;

}  // namespace cxxrun
