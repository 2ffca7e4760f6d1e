// Findings as a table for people and as JSON. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "cxxrun/error.hpp"
#include "launcher/doctor/finding.hpp"

namespace cxxrun::launcher::doctor {

/// "fine", "note", "warning", "failure".
[[nodiscard]] char const* name_of(Grade grade);
/// The lines of the table: what several nodes have alike counts once.
[[nodiscard]] std::size_t count(Report const& report, Grade grade);

/// A line for each finding with its remedy below, those of several nodes that differ in nothing but numbers in one;
/// then a line that counts. Ends with a newline.
[[nodiscard]] std::string findings_text(Report const& report);

/// {"version": 1, "failures": N, "warnings": N, "nodes": [{"host", "findings": [{"grade", "about", "found",
/// "remedy"}]}]}
[[nodiscard]] std::string findings_json(Report const& report);

/// Facts on their way from a child or another node. Total: what cannot be read is an error.
[[nodiscard]] std::string write_facts(Facts const& facts);
[[nodiscard]] Result<Facts> read_facts(std::string const& text);

}  // namespace cxxrun::launcher::doctor
