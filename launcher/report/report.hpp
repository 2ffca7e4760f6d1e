// Report: the verdict as text for people, and as JSON for programs. Pure.
#pragma once

#include <string>

#include "rendezvous/values/verdict.hpp"

namespace cxxrun::launcher {

/// The full report, printed once by the coordinator: what failed first (host, rank, how, its last lines on stderr,
/// the message of torch's error file if it wrote one), the other failures folded under it, restarts used.
/// `colour`: ANSI colours for a terminal. Empty for a success.
[[nodiscard]] std::string format_report(rendezvous::Verdict const& told, std::string const& program, bool colour);

/// The line of torch's error file that a person wants: the exception and its message, or "" when it has none.
/// Accepts both forms that torch writes; anything else gives "".
[[nodiscard]] std::string error_file_message(std::string const& text);

/// A worker's error file as torchrun copies it for whoever has started it (torch/distributed/elastic/multiprocessing/
/// errors/error_handler.py, from 1.10 to 2.14): with its exit code, negative for a signal, where it has an object for
/// it.
[[nodiscard]] std::string error_file_for_caller(std::string const& text, ExitStatus const& status);

/// The verdict as one JSON object, for verdict.json in the log directory.
[[nodiscard]] std::string verdict_json(rendezvous::Verdict const& verdict);

}  // namespace cxxrun::launcher
