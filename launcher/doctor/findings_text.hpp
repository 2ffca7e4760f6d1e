// Findings as a table for people and as JSON. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "cxxrun/error.hpp"
#include "launcher/doctor/finding.hpp"

namespace cxxrun::launcher::doctor {

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
