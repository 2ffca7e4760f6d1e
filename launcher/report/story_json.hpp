// StoryJson: the story of a job for machines: events.jsonl line by line, and what verdict.json has of the past. Pure.
// What the fields mean: docs/use/verdict.md.
#pragma once

#include <cstdint>
#include <string>

#include "rendezvous/values/history.hpp"
#include "rendezvous/values/story.hpp"

namespace cxxrun::launcher {

/// Of events.jsonl and of verdict.json: grows when a field changes its meaning or goes.
inline constexpr int kStoryVersion = 1;

/// "2026-11-23T21:36:12.911Z", of Unix time in ms.
[[nodiscard]] std::string utc_text(std::int64_t wall_ms);
/// The first line of events.jsonl, without its newline.
[[nodiscard]] std::string story_begins(std::string const& run_id, std::string const& host, std::int64_t wall_ms);
/// One line, without its newline. `wall_ms`: when it is written, to be shown only.
[[nodiscard]] std::string event_line(rendezvous::story::Event const& event, std::int64_t wall_ms);
/// {"account": …, "history": …, "history_left_out": …}
[[nodiscard]] std::string history_json(rendezvous::History const& history);

}  // namespace cxxrun::launcher
