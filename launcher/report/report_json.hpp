// Report as JSON: verdict.json and events.jsonl, whose fields docs/use/verdict.md explains; and torch's error file.
// Pure.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/values/story.hpp"
#include "rendezvous/values/verdict.hpp"

namespace cxxrun::launcher {

/// The version of events.jsonl and verdict.json: grows when a field changes its meaning or is removed.
inline constexpr int kStoryVersion = 1;

/// The first line of events.jsonl, without its newline.
[[nodiscard]] std::string events_header(std::string const& run_id, std::string const& host, std::int64_t wall_ms);
/// A line of events.jsonl, without its newline. `wall_ms`: when it is written, for people only.
[[nodiscard]] std::string event_line(rendezvous::story::Event const& event, std::int64_t wall_ms);

/// The content of verdict.json, one JSON object.
[[nodiscard]] std::string verdict_json(rendezvous::Verdict const& verdict);

/// The exception and its message from torch's error file, as one line; "" if it has none. Accepts both forms that torch
/// writes.
[[nodiscard]] std::string error_file_message(std::string const& text);
/// A worker's error file as torchrun passes it on to its own caller (torch/distributed/elastic/multiprocessing/errors/
/// error_handler.py, from 1.10 to 2.14): with the worker's exit code, negative for a signal. Unchanged if its message
/// is no object.
[[nodiscard]] std::string error_file_for_caller(std::string const& text, ExitStatus const& status);

}  // namespace cxxrun::launcher
