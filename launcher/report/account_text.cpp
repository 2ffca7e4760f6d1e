#include "launcher/report/account_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

using rendezvous::History;
using rendezvous::PastGeneration;
using rendezvous::Spent;

constexpr Millis kLong{10'000};
constexpr Millis kShort{1'000};
constexpr std::size_t kMostNamed = 3;

struct Row {
  Spent spent;
  char const* title;
};
constexpr std::array kRows{
    Row{Spent::training, "training"}, Row{Spent::checkpoint, "checkpoint"},     Row{Spent::lost, "lost"},
    Row{Spent::startup, "start-up"},  Row{Spent::waiting, "waiting for nodes"}, Row{Spent::stopping, "stopping"}};

std::string percent(Millis part, Millis all) {
  std::int64_t const tenths = all > Millis{0} ? (part.count() * 1000 + all.count() / 2) / all.count() : 0;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

std::string padded(std::string const& text, std::size_t width, bool right = false) {
  std::string const blanks(width - std::min(width, text.size()), ' ');
  return right ? blanks + text : text + blanks;
}

std::vector<PastGeneration> costliest(History const& history) {
  std::vector<PastGeneration> failed;
  std::copy_if(history.past.begin(), history.past.end(), std::back_inserter(failed),
               [](auto const& each) { return each.failed; });
  std::stable_sort(failed.begin(), failed.end(), [](auto const& a, auto const& b) { return a.lost > b.lost; });
  return failed;
}

std::string losses(History const& history) {
  auto const failed = costliest(history);
  std::string text;
  for (std::size_t i = 0; i < std::min(failed.size(), kMostNamed); ++i) {
    text += "      " + elapsed_text(failed[i].lost) + " to the end of generation " + std::to_string(failed[i].number) +
            ": " + printable(failed[i].why) + "\n";
  }
  auto const more = failed.size() - std::min(failed.size(), kMostNamed);
  return more == 0 ? text : text + "      and to " + std::to_string(more) + " more\n";
}

}  // namespace

std::string goodput_text(History const& history) {
  return percent(history.account[Spent::training], history.account.total());
}

bool worth_telling(History const& history) {
  bool const failed =
      std::any_of(history.past.begin(), history.past.end(), [](auto const& each) { return each.failed; });
  bool const survived = history.left_out > 0 || (failed && history.past.size() > 1);
  return history.account.total() >= (survived ? kShort : kLong);
}

std::string account_lines(History const& history) {
  auto const all = history.account.total();
  if (all == Millis{0}) {
    return "";
  }
  std::string text = "  elapsed:       " + elapsed_text(all);
  if (!worth_telling(history)) {
    return text + "\n";
  }
  text +=
      ", goodput " + goodput_text(history) + (history.steps ? "" : " at most: the program tells of no steps") + "\n";
  for (auto const& [spent, title] : kRows) {
    if (auto const part = history.account[spent]; part > Millis{0}) {
      text += "    " + padded(title, 18) + padded(elapsed_text(part), 10, true) + padded(percent(part, all), 9, true) +
              "\n" + (spent == Spent::lost ? losses(history) : "");
    }
  }
  return text;
}

}  // namespace cxxrun::launcher
