#include "src/base/core/text.hpp"

#include <algorithm>
#include <numeric>

namespace cxxrun {

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      std::size_t const substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

/// Replaces control characters by '?', also U+0080 to U+009F: U+009B begins an escape sequence as ESC [ does.
std::string without_controls(std::string_view text, std::string_view kept) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    auto const byte = static_cast<unsigned char>(text[i]);
    bool const second_set = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    bool const control = second_set || byte < 0x20 || byte == 0x7f;
    result += control && kept.find(text[i]) == std::string_view::npos ? '?' : text[i];
    i += second_set ? 1 : 0;
  }
  return result;
}

}  // namespace

Result<std::uint64_t> parse_unsigned(std::string_view text, std::uint64_t least, std::uint64_t most) {
  auto const value = number_in<std::uint64_t>(text);
  if (!value || *value < least || *value > most) {
    return fail(Errc::usage, "a number from " + std::to_string(least) + " to " + std::to_string(most) + " is expected");
  }
  return *value;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  auto const first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) {
    return {};
  }
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (auto at = text.find(separator); at != std::string_view::npos; at = text.find(separator)) {
    parts.emplace_back(text.substr(0, at));
    text.remove_prefix(at + 1);
  }
  parts.emplace_back(text);
  return parts;
}

std::string join(std::vector<std::string> const& parts, std::string_view separator) {
  std::string all;
  for (auto const& part : parts) {
    if (&part != &parts.front()) {
      all += separator;
    }
    all += part;
  }
  return all;
}

std::string join_first(std::size_t most, std::vector<std::string> parts) {
  auto const more = parts.size() - std::min(parts.size(), most);
  parts.resize(parts.size() - more);
  return join(parts, ", ") + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

std::string number_list(std::vector<std::uint32_t> numbers, std::string_view separator) {
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < numbers.size();) {
    auto last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] - numbers[last] <= 1) {
      ++last;
    }
    bool const is_one = numbers[first] == numbers[last];
    parts.push_back(std::to_string(numbers[first]) + (is_one ? "" : "-" + std::to_string(numbers[last])));
    first = last + 1;
  }
  return join(parts, separator);
}

std::string counted(std::uint64_t count, std::string const& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (auto at = text.find(from); at != std::string_view::npos && !from.empty(); at = text.find(from)) {
    result += text.substr(0, at);
    result += to;
    text.remove_prefix(at + from.size());
  }
  return result += text;
}

std::string shell_quote(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  return "'" + replace_all(text, "'", "'\\''") + "'";
}

std::string printable(std::string_view text, std::size_t most) {
  return without_controls(text.substr(0, most), "") + (text.size() > most ? "..." : "");
}

std::string printable_lines(std::string_view text) {
  constexpr std::string_view kEscape = "\033[";
  std::string plain;
  for (auto at = text.find(kEscape); at != std::string_view::npos; at = text.find(kEscape)) {
    auto const end = std::min(text.size(), text.find_first_not_of("0123456789;", at + kEscape.size()));
    bool const colour = end < text.size() && text[end] == 'm';
    plain += text.substr(0, colour ? at : end);
    text.remove_prefix(colour ? end + 1 : end);
  }
  return without_controls(plain += text, "\n\t");
}

std::string seconds_text(Millis duration) {
  std::string text = std::to_string(duration.count() / 1000);
  if (auto const rest = duration.count() % 1000; rest > 0) {
    std::string decimals = std::to_string(1000 + rest).substr(1);
    decimals.erase(decimals.find_last_not_of('0') + 1);
    text += "." + decimals;
  }
  return text + " s";
}

std::string elapsed_text(Millis duration) {
  auto const tenths = duration.count() / 100;
  if (tenths < 600) {
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
  }
  auto const two_digits = [](auto number) { return std::to_string(100 + number).substr(1); };
  auto const seconds = tenths / 10;
  std::string const minutes = two_digits(seconds / 60 % 60) + ":" + two_digits(seconds % 60);
  return std::to_string(seconds / 3600) + ":" + minutes + " h";
}

std::string rank_name(std::int64_t rank, std::string const& host) {
  return "rank " + std::to_string(rank) + " on " + host;
}

std::string name_ranks(std::vector<int> const& ranks) {
  constexpr std::size_t kShown = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t const shown = std::min(ranks.size(), kShown);
  for (std::size_t i = 0; i < shown; ++i) {
    bool const last = i + 1 == ranks.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return ranks.size() > shown ? text + " and " + std::to_string(ranks.size() - shown) + " more" : text;
}

std::optional<std::string> nearest_word(std::string_view word, std::vector<std::string> const& candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (auto const& candidate : candidates) {
    std::size_t const distance = edit_distance(word.substr(0, 100), candidate);
    if (distance * 3 <= std::max(word.size(), candidate.size()) && (!best || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace cxxrun
