// Small helpers for texts: numbers, splitting and joining, quoting, durations, the nearest word. Pure.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun {

/// The whole text as a number, decimal unless `base` says otherwise; nothing if it is not a number or does not fit into
/// Number.
template <class Number>
[[nodiscard]] std::optional<Number> number_in(std::string_view text, int base = 10) {
  Number number{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// A decimal number without sign or blanks, within [least, most]. The error says what is expected, but not where: the
/// caller knows the option or variable.
[[nodiscard]] Result<std::uint64_t> parse_unsigned(std::string_view text, std::uint64_t least, std::uint64_t most);

[[nodiscard]] std::string_view trim(std::string_view text);
/// One part more than there are separators; "" gives one empty part.
[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);
[[nodiscard]] std::string join(std::vector<std::string> const& parts, std::string_view separator);
/// The first `most` parts, and the number of the others: "a, b and 3 more".
[[nodiscard]] std::string join_first(std::size_t most, std::vector<std::string> parts);
/// "0-7,9". The numbers may be in any order; duplicates are dropped.
[[nodiscard]] std::string number_list(std::vector<std::uint32_t> numbers, std::string_view separator = ",");
/// "1 node", "2 nodes".
[[nodiscard]] std::string counted(std::uint64_t count, std::string const& what);
[[nodiscard]] std::string lower(std::string_view text);
[[nodiscard]] std::string replace_all(std::string_view text, std::string_view from, std::string_view to);
/// The text in single quotes if a shell would act on anything in it; for commands that people copy.
[[nodiscard]] std::string shell_quote(std::string_view text);
/// The text with control characters replaced by '?', cut after `most` bytes: safe in one line.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most = 200);
/// The same, but keeps line breaks and tabs and drops colour sequences: for a worker's stderr in a report.
[[nodiscard]] std::string printable_lines(std::string_view text);

/// "60 s", "0.5 s": up to three decimals, without trailing zeros.
[[nodiscard]] std::string seconds_text(Millis duration);
/// "12.3 s", "0:05:00 h", "26:13:05 h": a duration for people.
[[nodiscard]] std::string elapsed_text(Millis duration);

/// How all messages name ranks: "rank 2 on node1".
[[nodiscard]] std::string rank_name(std::int64_t rank, std::string const& host);
/// "rank 2", "ranks 2, 3 and 5"; lists at most eight.
[[nodiscard]] std::string name_ranks(std::vector<int> const& ranks);

/// The candidate with the smallest edit distance, if that is at most a third of the longer word.
[[nodiscard]] std::optional<std::string> nearest_word(std::string_view word,
                                                      std::vector<std::string> const& candidates);

}  // namespace cxxrun
