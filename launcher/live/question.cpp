#include "launcher/live/question.hpp"

#include <algorithm>
#include <array>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher::live {
namespace {

struct Form {
  char const* word;
  std::size_t words;      ///< number of words, including `word`
  bool one_more = false;  ///< another one may come: a place, of follow a nonce
};
/// By Question::What.
constexpr std::array<Form, 11> kForms{{{"who", 1},
                                       {"status", 1},
                                       {"events", 2},
                                       {"follow", 2, true},
                                       {"stacks", 2},
                                       {"native", 2},
                                       {"logs", 3, true},
                                       {"checkpoint", 2},
                                       {"restart", 2},
                                       {"drain", 3},
                                       {"stop", 2}}};

bool has_number(Question::What what) {
  return what == Question::What::events || what == Question::What::follow || what == Question::What::logs ||
         changes_job(what);
}

bool read_ranks(std::string_view text, std::vector<std::uint32_t>& ranks) {
  for (auto const& part : split(text, ',')) {
    auto const rank = number_in<std::uint32_t>(part);
    if (!rank || ranks.size() == kMostRanks) {
      return false;
    }
    ranks.push_back(*rank);
  }
  return true;
}

}  // namespace

std::optional<LogPlace> parse_place(std::string_view text) {
  std::vector<std::uint64_t> numbers;
  for (auto const& part : split(text, ':')) {
    auto const number = number_in<std::uint64_t>(part);
    if (!number) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  if (numbers.size() != 5) {
    return std::nullopt;
  }
  return LogPlace{numbers[0], {{{numbers[1], numbers[2]}, {numbers[3], numbers[4]}}}};
}

std::string place_text(LogPlace const& place) {
  std::string text = std::to_string(place.generation);
  for (auto const& file : place.files) {
    text += ":" + std::to_string(file.id) + ":" + std::to_string(file.offset);
  }
  return text;
}

std::optional<Question> parse_question(std::string_view text) {
  auto const words = split(text, ' ');
  auto const* const form = std::find_if(kForms.begin(), kForms.end(), [&](Form const& each) {
    return words.front() == each.word &&
           (words.size() == each.words || (each.one_more && words.size() == each.words + 1));
  });
  if (form == kForms.end()) {
    return std::nullopt;
  }
  Question question{static_cast<Question::What>(form - kForms.begin()), 0, {}};
  bool const all = question.what != Question::What::logs && words.back() == "all";
  if (asks_for_ranks(question.what) && !all && !read_ranks(words[1], question.ranks)) {
    return std::nullopt;
  }
  if (question.what == Question::What::drain) {
    question.node = words[1];
    if (question.node.empty()) {
      return std::nullopt;
    }
  }
  if (has_number(question.what)) {
    auto const number = number_in<std::uint64_t>(words[form->words - 1]);
    if (!number) {
      return std::nullopt;
    }
    question.number = *number;
  }
  if (words.size() > form->words) {
    if (question.what == Question::What::follow) {
      question.nonce = words.back();
    } else {
      question.place = parse_place(words.back());
    }
    if (question.nonce.empty() && !question.place) {
      return std::nullopt;
    }
  }
  return question;
}

std::string question_text(Question const& question) {
  std::string text = kForms.at(static_cast<std::size_t>(question.what)).word;
  if (asks_for_ranks(question.what)) {
    std::vector<std::string> ranks;
    for (auto const rank : question.ranks) {
      ranks.push_back(std::to_string(rank));
    }
    text += " " + (ranks.empty() ? "all" : join(ranks, ","));
  }
  text += question.node.empty() ? "" : " " + question.node;
  if (has_number(question.what)) {
    text += " " + std::to_string(question.number);
  }
  text += question.nonce.empty() ? "" : " " + question.nonce;
  return text + (question.place ? " " + place_text(*question.place) : "");
}

std::vector<std::string> parts_of(std::string_view text, std::size_t most) {
  std::vector<std::string> parts;
  do {
    auto end = std::min(text.size(), most);
    auto const inside = [&] { return end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U; };
    while (end > 0 && inside()) {
      --end;
    }
    end = end == 0 ? std::min(text.size(), most) : end;  // not UTF-8
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  } while (!text.empty());
  return parts;
}

}  // namespace cxxrun::launcher::live
