// Numbers among facts, and as text. Pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "launcher/doctor/finding.hpp"
#include "launcher/report/death.hpp"

namespace cxxrun::launcher::doctor {

/// Nothing when it is no number, as "", "unlimited", "max" and "-1" are.
[[nodiscard]] inline std::optional<double> number(std::string const& text) {
  char* end = nullptr;
  double const value = std::strtod(text.c_str(), &end);
  bool const whole = !text.empty() && end == text.c_str() + text.size() && std::isfinite(value) && value >= 0;
  return whole && value < 1e18 ? std::optional(value) : std::nullopt;
}
[[nodiscard]] inline std::optional<double> number(Facts const& facts, std::string const& key) {
  return number(value_of(facts, key));
}

[[nodiscard]] inline std::string whole(std::optional<double> value) {
  return value ? std::to_string(static_cast<std::uint64_t>(*value)) : "?";
}

/// "2.5"
[[nodiscard]] inline std::string tenths(double value) {
  auto const ten = static_cast<std::uint64_t>(std::llround(value * 10));
  return std::to_string(ten / 10) + (ten % 10 == 0 ? "" : "." + std::to_string(ten % 10));
}

[[nodiscard]] inline std::string size_text(double bytes) {
  return bytes_text(static_cast<std::uint64_t>(bytes));
}

}  // namespace cxxrun::launcher::doctor
