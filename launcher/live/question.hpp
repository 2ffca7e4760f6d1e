// Question: what a program may ask about a job, as text. Pure. docs/use/live.md.
//
//   who              the job of this agent; the agent answers by itself
//   status           the live table
//   events AFTER     events after number AFTER, as far as they are kept
//   follow AFTER     the same, and on to the verdict; `follow AFTER NONCE`: of the coordinator that counts so. Without
//                    its nonce AFTER is taken for 0
//   stacks all       the stacks of all workers; `stacks 3,5`: of these ranks
//   native all       the same by the debugger, for which each worker stands still
//   logs RANK BYTES  the last bytes of the log files of a worker; `logs RANK BYTES PLACE`: what it has written since
//   checkpoint GENERATION   asks its workers to save, if this generation runs; restart and stop in the same form
//   drain NODE GENERATION   stops it, and goes on without this node
//
// The answer is lines of JSON. A line with "error" says why nothing follows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cxxrun::launcher::live {

/// How far the log files of a worker have been read; all 0: not at all. As text: "GENERATION:ID:OFFSET:ID:OFFSET".
struct LogPlace {
  struct File {
    std::uint64_t id = 0;  ///< its inode; it changes its name when it is full
    std::uint64_t offset = 0;
    bool operator==(File const&) const = default;
  };
  std::uint64_t generation = 0;
  std::array<File, 2> files;  ///< stdout.log and stderr.log
  bool operator==(LogPlace const&) const = default;
};
[[nodiscard]] std::optional<LogPlace> parse_place(std::string_view text);
[[nodiscard]] std::string place_text(LogPlace const& place);

struct Question {
  enum class What : std::uint8_t {
    who,
    status,
    events,
    follow,
    stacks,
    native,
    logs,
    checkpoint,
    restart,
    drain,
    stop
  };
  What what = What::who;
  std::uint64_t number = 0;                      ///< AFTER, BYTES, GENERATION
  std::vector<std::uint32_t> ranks;              ///< at most kMostRanks; empty: all
  std::optional<LogPlace> place = std::nullopt;  ///< of logs
  std::string node = {};                         ///< of drain; no blank in it
  std::string nonce = {};                        ///< of follow; no blank in it; "": none is known
  bool operator==(Question const&) const = default;
};
inline constexpr std::size_t kMostRanks = 64;
inline constexpr std::uint64_t kMostTail = 65'536;

/// Whether the question names ranks.
[[nodiscard]] constexpr bool asks_for_ranks(Question::What what) {
  return what == Question::What::stacks || what == Question::What::native || what == Question::What::logs;
}
/// Whether the job is changed, so that a person was asked before.
[[nodiscard]] constexpr bool changes_job(Question::What what) {
  return what >= Question::What::checkpoint;
}
/// Whether the coordinator passes it on to other agents, which takes longer.
[[nodiscard]] constexpr bool is_passed_on(Question::What what) {
  return asks_for_ranks(what) || what == Question::What::checkpoint;
}
/// Nothing: the text is no question.
[[nodiscard]] std::optional<Question> parse_question(std::string_view text);
[[nodiscard]] std::string question_text(Question const& question);

/// Cuts a text into parts of at most `most` bytes, never within a UTF-8 character. At least one part.
[[nodiscard]] std::vector<std::string> parts_of(std::string_view text, std::size_t most);
/// Calls say(part, more) for each part; `more`: other text follows this one.
template <class Say>
void say_in_parts(std::string_view text, std::size_t most, bool more, Say const& say) {
  auto parts = parts_of(text, most);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    say(std::move(parts[i]), more || i + 1 < parts.size());
  }
}

}  // namespace cxxrun::launcher::live
