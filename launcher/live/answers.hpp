// Answers: what a coordinator or an agent tells a program that asks for the live view, as lines of JSON. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/live/live.hpp"
#include "launcher/live/question.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher::live {

/// What the job was started with, for people.
struct Facts {
  std::string run_id;
  std::string host;     ///< of the coordinator
  std::string program;  ///< its file name; "": not known
  std::optional<std::uint32_t> max_restarts;
  std::string nonce;  ///< of the coordinator; each coordinator numbers its events anew
};
/// The answer to `status`, in one line. docs/use/live.md has its fields.
[[nodiscard]] std::string live_json(Live const& live, Facts const& facts, TimePoint now);
/// An agent's answer to `who`. `step`: of Slurm, "" = none.
[[nodiscard]] std::string who_json(std::string const& run_id, std::string const& step, std::string const& host);
inline constexpr char const* kTooManyQuestions = "too many questions at once: try again in a few seconds";
/// {"error": why}
[[nodiscard]] std::string error_json(std::string const& why);
/// {"done": what}
[[nodiscard]] std::string done_json(std::string const& what);
/// How many of a node's workers were asked for a checkpoint, of how many.
[[nodiscard]] std::string asked_json(std::string const& host, std::size_t asked, std::size_t workers);
/// The stack of a worker, innermost frame first. `place`: what the kernel says of it if there are no frames.
[[nodiscard]] std::string stack_json(std::uint32_t rank, std::string const& host,
                                     std::vector<std::string> const& frames, std::string const& place);
/// The end of a file, or what has been written to it since somebody asked.
struct Tail {
  std::string file;
  std::string text;
  std::uint64_t left_out = 0;  ///< bytes before it that would have been too many
  std::string place;           ///< where the worker's next lines begin: place_text()
};
[[nodiscard]] std::string tail_json(std::uint32_t rank, std::string const& host, Tail const& tail);
/// {"nonce": …}, and a line for each event after number `after`, with "number" first.
[[nodiscard]] std::string lines_json(Live const& live, Facts const& facts, std::uint64_t after);
/// The last of this coordinator's events that is known to whoever asks `follow`.
[[nodiscard]] std::uint64_t known_to(Question const& question, Facts const& facts);

}  // namespace cxxrun::launcher::live
