#include "src/base/core/hostlist.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "src/base/core/text.hpp"

namespace cxxrun {

namespace {

constexpr std::size_t kMaxName = 255;
constexpr std::size_t kMaxDigits = 18;  // fits into 64 bits; no site has longer host numbers

struct Range {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::size_t width = 0;
  [[nodiscard]] std::uint64_t size() const { return high - low + 1; }
};

/// One host expression: texts[0] ranges[0] texts[1] ranges[1] … texts[n].
struct Pattern {
  std::vector<std::string> texts;
  std::vector<std::vector<Range>> ranges;
};

Error invalid(std::string_view part, std::string const& why) {
  return fail(Errc::environment, "host list: '" + printable(part, 80) + "': " + why);
}

Result<Range> parse_range(std::string_view text) {
  std::string_view const low_text = text.substr(0, text.find('-'));
  std::string_view const low_digits = low_text.substr(std::min(low_text.find_first_not_of(' '), low_text.size()));
  // Slurm reads "5-" as "5" and counts blanks before a number as part of its width.
  std::string_view const high_text = low_text.size() + 1 < text.size() ? text.substr(low_text.size() + 1) : low_digits;
  auto const low = parse_unsigned(low_digits, 0, UINT64_MAX);
  auto const high = parse_unsigned(high_text, 0, UINT64_MAX);
  if (!low || !high || low_text.size() > kMaxDigits || high_text.size() > kMaxDigits) {
    return invalid(text, "not a range of numbers");
  }
  if (*high < *low) {
    return invalid(text, "the range runs backwards");
  }
  if (*high - *low >= kMaxHosts) {
    return invalid(text, "more than " + std::to_string(kMaxHosts) + " hosts");
  }
  return Range{*low, *high, low_text.size()};
}

Result<std::vector<Range>> parse_ranges(std::string_view text) {
  std::vector<Range> ranges;
  for (auto const& item : split(text, ',')) {
    auto range = parse_range(item);
    if (!range) {
      return range.error();
    }
    ranges.push_back(*range);
  }
  return ranges;
}

Result<Pattern> parse_pattern(std::string_view part) {
  Pattern pattern;
  std::string_view rest = part;
  for (auto open = rest.find('['); open != std::string_view::npos; open = rest.find('[')) {
    auto const close = rest.find(']', open);
    if (close == std::string_view::npos) {
      return invalid(part, "a bracket is not closed");
    }
    if (pattern.ranges.size() == 8) {
      return invalid(part, "more than 8 brackets");
    }
    auto ranges = parse_ranges(rest.substr(open + 1, close - open - 1));
    if (!ranges) {
      return ranges.error();
    }
    pattern.texts.emplace_back(rest.substr(0, open));
    pattern.ranges.push_back(std::move(*ranges));
    rest.remove_prefix(close + 1);
  }
  if (!pattern.ranges.empty() && rest.find(']') != std::string_view::npos) {
    return invalid(part, "a bracket is closed twice");
  }
  pattern.texts.emplace_back(rest);
  return pattern;
}

Result<std::size_t> count_hosts(Pattern const& pattern, std::string_view part) {
  std::uint64_t count = 1;
  std::size_t length = 0;
  for (auto const& text : pattern.texts) {
    length += text.size();
  }
  if (length > kMaxName) {
    return invalid(part, "a name longer than " + std::to_string(kMaxName) + " characters");
  }
  for (auto const& ranges : pattern.ranges) {
    std::uint64_t sum = 0;
    for (auto const& range : ranges) {
      sum += range.size();
    }
    count *= sum;
    if (count > kMaxHosts) {  // both factors are below 2^37 here, so the product cannot have wrapped
      return invalid(part, "more than " + std::to_string(kMaxHosts) + " hosts");
    }
  }
  return static_cast<std::size_t>(count);
}

std::string padded(std::uint64_t number, std::size_t width) {
  std::string const digits = std::to_string(number);
  return std::string(width > digits.size() ? width - digits.size() : 0, '0') + digits;
}

std::vector<std::string> numbers_of(std::vector<Range> const& ranges) {
  std::vector<std::string> numbers;
  for (auto const& range : ranges) {
    for (auto n = range.low; n <= range.high; ++n) {
      numbers.push_back(padded(n, range.width));
    }
  }
  return numbers;
}

/// The last bracket varies fastest, then the first, the second, and so on to the last but one. Slurm was seen to do
/// this with up to three brackets: in "r[0-1]c[0-1]n[0-1]" r1c0n0 follows r0c0n1. With more the same rule is assumed.
std::vector<std::string> expand(Pattern const& pattern) {
  std::size_t const brackets = pattern.ranges.size();
  assert(pattern.texts.size() == brackets + 1);
  std::vector<std::vector<std::string>> numbers;
  for (auto const& ranges : pattern.ranges) {
    numbers.push_back(numbers_of(ranges));
  }
  std::vector<std::size_t> at(brackets, 0);
  std::vector<std::string> hosts;
  while (true) {
    std::string host = pattern.texts[0];
    for (std::size_t i = 0; i < brackets; ++i) {
      host += numbers[i][at[i]] + pattern.texts[i + 1];
    }
    hosts.push_back(std::move(host));
    std::size_t turn = 0;
    for (; turn < brackets; ++turn) {
      std::size_t const bracket = (turn + brackets - 1) % brackets;
      if (++at[bracket] < numbers[bracket].size()) {
        break;
      }
      at[bracket] = 0;
    }
    if (turn == brackets) {
      return hosts;
    }
  }
}

/// Splits at commas and blanks outside brackets, and drops empty parts, as Slurm does.
std::vector<std::string_view> cut(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t start = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || (!inside && (text[i] == ',' || text[i] == ' ' || text[i] == '\t' || text[i] == '\n'))) {
      if (i > start) {
        parts.push_back(text.substr(start, i - start));
      }
      start = i + 1;
    } else if (text[i] == '[' || text[i] == ']') {
      inside = text[i] == '[';
    }
  }
  return parts;
}

bool can_be_listed(std::string_view name) {
  return !name.empty() && name.size() <= kMaxName && name.find_first_of(",[] \t\n") == std::string_view::npos;
}

/// Consecutive names that differ only in the number at their end; without ranges a single name.
struct Stem {
  std::string_view text;
  std::vector<Range> ranges;
};

void add_name(std::vector<Stem>& stems, std::string_view name) {
  std::size_t at = name.size();
  while (at > 0 && name.size() - at < kMaxDigits && name[at - 1] >= '0' && name[at - 1] <= '9') {
    --at;
  }
  std::string_view const text = name.substr(0, at);
  std::string_view const digits = name.substr(at);
  if (digits.empty()) {
    stems.push_back({text, {}});
    return;
  }
  if (stems.empty() || stems.back().text != text || stems.back().ranges.empty()) {
    stems.push_back({text, {}});
  }
  auto& ranges = stems.back().ranges;
  if (!ranges.empty() && digits == padded(ranges.back().high + 1, ranges.back().width)) {
    ++ranges.back().high;
    return;
  }
  std::uint64_t const number = parse_unsigned(digits, 0, UINT64_MAX).value();
  ranges.push_back({number, number, digits.size()});
}

std::string text_of(Stem const& stem) {
  std::vector<std::string> items;
  items.reserve(stem.ranges.size());
  for (auto const& range : stem.ranges) {
    std::string const low = padded(range.low, range.width);
    items.push_back(range.size() == 1 ? low : low + "-" + padded(range.high, range.width));
  }
  bool const one = stem.ranges.empty() || (stem.ranges.size() == 1 && stem.ranges.front().size() == 1);
  return std::string(stem.text) + (one ? join(items, ",") : "[" + join(items, ",") + "]");
}

}  // namespace

std::string compress_hostlist(std::vector<std::string> const& names) {
  if (names.size() > kMaxHosts || !std::all_of(names.begin(), names.end(), can_be_listed)) {
    return "";
  }
  std::vector<Stem> stems;
  for (auto const& name : names) {
    add_name(stems, name);
  }
  std::vector<std::string> parts;
  parts.reserve(stems.size());
  for (auto const& stem : stems) {
    parts.push_back(text_of(stem));
  }
  return join(parts, ",");
}

std::string compress_counts(std::vector<unsigned> const& counts) {
  std::vector<std::string> items;
  for (auto at = counts.begin(); at != counts.end();) {
    auto const end = std::find_if(at, counts.end(), [at](unsigned count) { return count != *at; });
    std::string item = std::to_string(*at);
    if (end - at > 1) {
      item += "(x" + std::to_string(end - at) + ")";
    }
    items.push_back(std::move(item));
    at = end;
  }
  return join(items, ",");
}

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
  std::vector<std::string> hosts;
  for (auto const part : cut(text)) {
    auto const pattern = parse_pattern(part);
    if (!pattern) {
      return pattern.error();
    }
    auto const count = count_hosts(*pattern, part);
    if (!count) {
      return count.error();
    }
    if (hosts.size() + *count > kMaxHosts) {
      return invalid(part, "more than " + std::to_string(kMaxHosts) + " hosts in the list");
    }
    for (auto& host : expand(*pattern)) {
      hosts.push_back(std::move(host));
    }
  }
  return hosts;
}

Result<std::vector<unsigned>> expand_counts(std::string_view text) {
  std::vector<unsigned> counts;
  for (auto const& item : split(text, ',')) {
    std::string_view const whole = item;
    auto const open = whole.find("(x");
    bool const repeated = open != std::string_view::npos && whole.ends_with(')');
    auto const value = parse_unsigned(whole.substr(0, open), 0, kMaxHosts);
    auto const times = repeated ? parse_unsigned(whole.substr(open + 2, whole.size() - open - 3), 1, kMaxHosts)
                                : Result<std::uint64_t>(1);
    if (!value || !times || (open != std::string_view::npos && !repeated)) {
      return fail(Errc::environment, "'" + printable(whole, 80) + "': NUMBER or NUMBER(xTIMES) is expected");
    }
    if (counts.size() + *times > kMaxHosts) {
      return fail(Errc::environment,
                  "'" + printable(whole, 80) + "': more than " + std::to_string(kMaxHosts) + " nodes");
    }
    counts.insert(counts.end(), *times, static_cast<unsigned>(*value));
  }
  return counts;
}

}  // namespace cxxrun
