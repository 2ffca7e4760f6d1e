// Question: what a program may ask about a job, as text. Pure. docs/use/live.md.
//
//   who              which job this agent is of; the agent answers by itself
//   status           the live table
//   events AFTER     what happened after event number AFTER, as far as it is kept
//   stacks all       where the workers are, or `stacks 3,5`
//   logs RANK BYTES  the last bytes of what a worker has written, as far as it is in files
//
// The answer is lines of JSON. One that has "error" says why there is nothing else, or no more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cxxrun::launcher::live {

struct Question {
  enum class What : std::uint8_t { who, status, events, stacks, logs };
  What what = What::who;
  std::uint64_t number = 0;          ///< AFTER, BYTES
  std::vector<std::uint32_t> ranks;  ///< at most kMostRanks; of `stacks`, empty: all
  bool operator==(Question const&) const = default;
};
inline constexpr std::size_t kMostRanks = 64;
inline constexpr std::uint64_t kMostTail = 65'536;

/// Whether it names ranks, whose agents are asked.
[[nodiscard]] constexpr bool asks_for_ranks(Question::What what) {
  return what == Question::What::stacks || what == Question::What::logs;
}
/// Nothing: it is no such text.
[[nodiscard]] std::optional<Question> parse_question(std::string_view text);
[[nodiscard]] std::string question_text(Question const& question);

}  // namespace cxxrun::launcher::live
