// Findings of `cxxrun --doctor`: facts as they were read from a node, and what they mean for a job. Pure.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/facts/environment.hpp"
#include "launcher/report/death.hpp"

namespace cxxrun::launcher::doctor {

/// "shm.free" → "67108864". Numbers are in base units, lists separated by blanks; "" means unknown, as a missing key
/// does. Facts come from child processes and other nodes as text, so any value may be malformed.
using Facts = Environment;

/// Empty for anything but a number of 0 or more, for example "", "unlimited", "max" and "-1".
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

enum class Grade { fine, note, warning, failure };

struct Finding {
  Grade grade = Grade::fine;
  std::string about;   ///< "names", "/dev/shm": the first column
  std::string found;   ///< one line
  std::string remedy;  ///< one line; "" if there is nothing to do
  bool operator==(Finding const&) const = default;
};
using Findings = std::vector<Finding>;

struct NodeFindings {
  std::string host;
  Findings findings;
};

struct Report {
  std::vector<NodeFindings> nodes;
  Findings step;  ///< about the nodes of a step together; empty for a single node
};

// ---- as a table for people and as JSON ----------------------------------------------------------------------------

/// "fine", "note", "warning", "failure".
[[nodiscard]] char const* name_of(Grade grade);
/// The lines of that grade in the table: equal lines of several nodes count once.
[[nodiscard]] std::size_t count(Report const& report, Grade grade);

/// One line per finding with its remedy below, then a summary line. Findings of several nodes that differ only in
/// numbers are one line. Ends with a newline.
[[nodiscard]] std::string findings_text(Report const& report);

/// {"version": 1, "failures": N, "warnings": N, "nodes": [{"host", "findings": [{"grade", "about", "found",
/// "remedy"}]}]}
[[nodiscard]] std::string findings_json(Report const& report);

/// Facts as sent to another node. Total: malformed text is an error.
[[nodiscard]] std::string write_facts(Facts const& facts);
[[nodiscard]] Result<Facts> read_facts(std::string const& text);

}  // namespace cxxrun::launcher::doctor
