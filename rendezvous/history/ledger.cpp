#include "rendezvous/history/ledger.hpp"

#include <algorithm>
#include <utility>

namespace cxxrun::rendezvous {
namespace {

void drop_oldest(History& history, std::size_t most) {
  if (history.past.size() > most) {
    auto const surplus = history.past.size() - most;
    history.past.erase(history.past.begin(), history.past.begin() + static_cast<std::ptrdiff_t>(surplus));
    history.left_out += static_cast<std::uint32_t>(surplus);
  }
}

/// The time that the generation trained; its checkpoints are placed at the end.
struct Trained {
  TimePoint from;
  TimePoint checkpoints;  ///< end of the training, begin of the checkpoints
  TimePoint to;
};

Trained trained(Ledger const& ledger, bool failed, TimePoint end) {
  auto const within = [&](std::optional<TimePoint> const& at, TimePoint least) {
    return std::clamp(at.value_or(end), least, end);
  };
  StepTimes const& steps = ledger.steps;
  bool const none = !steps.first && ledger.history.steps;  // the program reports steps, and has reported none
  TimePoint const from = steps.first || none ? within(steps.first, *ledger.running) : *ledger.running;
  TimePoint const to = failed ? within(steps.last, from) : end;
  // A checkpoint made after the end, because of the end, is no part of the time before.
  Clock::duration const later = std::max(steps.last.value_or(end), end) - end;
  return {from, to - std::clamp<Clock::duration>(steps.checkpoints.value_or(Millis{0}) - later, Millis{0}, to - from),
          to};
}

}  // namespace

Millis age(Ledger const& ledger, TimePoint now) {
  return ledger.start ? std::max(std::chrono::duration_cast<Millis>(now - *ledger.start), Millis{0}) : Millis{0};
}

void open_ledger(Ledger& ledger, TimePoint now) {
  ledger.start = ledger.start.value_or(now);
}

bool owes(History const& history) {
  return !history.past.empty() && history.past.back().failed;
}

std::vector<story::Stretch> book(Ledger& ledger, TimePoint until, Spent on) {
  History& history = ledger.history;
  Millis const from = history.account.total();
  Millis const to = age(ledger, until);
  if (to <= from) {
    return {};
  }
  history.account[on] += to - from;
  if (on == Spent::lost && !history.past.empty()) {
    history.past.back().lost += to - from;
  }
  return {{on, from, to}};
}

std::vector<story::Stretch> book_wait(Ledger& ledger, TimePoint until) {
  return book(ledger, until, owes(ledger.history) ? Spent::lost : Spent::waiting);
}

void start_generation(Ledger& ledger, TimePoint now) {
  open_ledger(ledger, now);
  ledger.running = now;
  ledger.stopping.reset();
  ledger.steps = {};
}

void stop_generation(Ledger& ledger, TimePoint now) {
  ledger.stopping = now;
}

void note_steps(Ledger& ledger, StepsAgo const& reported, TimePoint now) {
  ledger.steps = both(ledger.steps, at(reported, now));
}

std::vector<story::Stretch> close_generation(Ledger& ledger, PastGeneration what, TimePoint now) {
  if (!ledger.running) {
    return {};
  }
  TimePoint const end = std::clamp(ledger.stopping.value_or(now), *ledger.running, std::max(now, *ledger.running));
  History& history = ledger.history;
  auto const [from, checkpoints, to] = trained(ledger, what.failed, end);
  history.steps = history.steps || ledger.steps.first;
  std::vector<story::Stretch> booked;
  auto const add = [&](TimePoint until, Spent on) {
    auto more = book(ledger, until, on);
    booked.insert(booked.end(), more.begin(), more.end());
  };
  add(from, owes(history) ? Spent::lost : Spent::startup);
  add(checkpoints, Spent::training);
  add(to, Spent::checkpoint);
  what.began = age(ledger, *ledger.running);
  what.ran = age(ledger, end) - what.began;
  what.lost = Millis{0};
  history.past.push_back(std::move(what));
  drop_oldest(history, kPastKept);
  add(now, history.past.back().failed ? Spent::lost : Spent::stopping);
  ledger.running.reset();
  ledger.stopping.reset();
  return booked;
}

std::string decree_text(std::string const& text) {
  std::string line = text.substr(0, kWhyOfDecree);
  // Replaces what JSON would escape or, like invalid UTF-8, alter.
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '"' || c == '\\'; }, '\'');
  return line;
}

History in_short(History const& history) {
  History brief = history;
  drop_oldest(brief, kPastOfDecree);
  for (auto& each : brief.past) {
    each.why = decree_text(each.why);
  }
  return brief;
}

void inherit(Ledger& ledger, History const& decided, std::optional<TimePoint> began, TimePoint now) {
  ledger = {};
  ledger.history = decided;
  ledger.start = std::min(began.value_or(now), now - decided.account.total());
}

}  // namespace cxxrun::rendezvous
