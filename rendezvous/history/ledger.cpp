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

/// What the time until the first step of a generation counts as.
Spent before_steps(History const& history) {
  return owes(history) ? Spent::lost : Spent::startup;
}

/// Books what the workers that run, or have run, have done until `end`.
std::vector<story::Stretch> book_run(Ledger& ledger, bool failed, TimePoint end) {
  auto const [from, checkpoints, to] = trained(ledger, failed, end);
  ledger.history.steps = ledger.history.steps || ledger.steps.first;
  std::vector<story::Stretch> booked;
  for (auto const& [until, on] : {std::pair(from, before_steps(ledger.history)),
                                  std::pair(checkpoints, Spent::training), std::pair(to, Spent::checkpoint)}) {
    auto const more = book(ledger, until, on);
    booked.insert(booked.end(), more.begin(), more.end());
  }
  return booked;
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
  auto booked = book_run(ledger, what.failed, end);
  what.began = age(ledger, *ledger.running);
  what.ran = age(ledger, end) - what.began;
  what.lost = Millis{0};
  bool const failed = what.failed;
  ledger.history.past.push_back(std::move(what));
  drop_oldest(ledger.history, kPastKept);
  auto const after = book(ledger, now, failed ? Spent::lost : Spent::stopping);
  booked.insert(booked.end(), after.begin(), after.end());
  ledger.running.reset();
  ledger.stopping.reset();
  return booked;
}

std::optional<History> so_far(Ledger ledger, StepTimes const& steps, std::optional<TimePoint> idle_until) {
  if (!ledger.running) {
    if (idle_until) {
      (void)book_wait(ledger, *idle_until);
    }
    return std::move(ledger.history);
  }
  ledger.steps = both(ledger.steps, steps);
  auto const& known = ledger.steps;
  if (!known.first && !idle_until) {
    return std::nullopt;
  }
  if (known.first || ledger.history.steps) {
    auto const end = known.first ? known.last.value_or(*known.first) : *idle_until;
    (void)book_run(ledger, true, std::max(std::min(end, ledger.stopping.value_or(end)), *ledger.running));
  } else {  // it may be a program that tells of no steps
    (void)book(ledger, *ledger.running, before_steps(ledger.history));
  }
  return std::move(ledger.history);
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
