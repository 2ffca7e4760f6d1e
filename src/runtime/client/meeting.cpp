#include "src/runtime/client/meeting.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::client {

constexpr Millis kFirstSlice{20};
constexpr Millis kLongestSlice{500};
/// Where an earlier meeting may have left something in the way, a rank says so that much before its time is up: in
/// time to be heard by the others.
constexpr Millis kTimeToTell{2000};
/// How long a rank that serves the store waits for the others to read why there will be no world. More than the first
/// moments of a process on a busy machine.
constexpr Millis kLinger{5000};
/// How long a rank that cannot take part looks for the meeting in which to say so.
constexpr Millis kReasonTime{2000};

template <class T>
T Meeting::need(Result<T> result) const {
  return or_throw(result ? std::move(result) : comm::in_context(mine_, result.error()));
}

Meeting::Meeting(Store store, MeetingConfig config, comm::JoinRecord mine)
    : store_(std::move(store)),
      config_(std::move(config)),
      mine_(std::move(mine)),
      my_text_(encode(mine_)),
      slice_(kFirstSlice) {}

std::vector<comm::JoinRecord> Meeting::meet() {
  if (mine_.rank == 0) {
    open();
    return collect();
  }
  TimePoint const patience =
      config_.fresh ? Clock::now() : config_.deadline - std::min(kTimeToTell, config_.timeout / 4);
  for (;;) {
    find_first();
    if (auto const obstacle = enter()) {
      if (!await_another_meeting(patience)) {
        end_with(*obstacle);
      }
    } else if (auto roster = await_roster()) {
      return *std::move(roster);
    }
  }
}

void Meeting::open() {
  first_ = mine_;
  first_text_ = my_text_;
  if (!config_.fresh) {
    need(store_.set(key("first"), my_text_));
    return;
  }
  std::string const held = need(store_.compare_set(key("first"), "", my_text_));
  if (held != my_text_) {
    auto const other = comm::decode_record(held);
    first_ = other ? *other : first_;
    end_with(fail(Errc::usage, "two processes have rank 0: " + comm::describe(mine_) + " and " +
                                   comm::describe(first_) + "; give each worker its own RANK"));
  }
}

// Rank 0 waits for all the others' claims.
Meeting::Roster Meeting::collect() {
  std::vector<std::string> claims;
  for (int rank = 1; rank < mine_.world; ++rank) {
    claims.push_back(claim_key(rank));
  }
  for (;;) {
    auto const there = store_.wait(claims, std::chrono::ceil<Millis>(next_look() - Clock::now()));
    look_for_refusal();
    if (there) {
      break;
    }
    if (moved()) {
      Error const error = fail(Errc::usage, "two processes have rank 0: " + comm::describe(mine_) +
                                                " and another that came later; " + "give each worker its own RANK");
      find_first();  // whoever follows the other one learns it too
      end_with(error);
    }
    if (Clock::now() >= config_.deadline) {
      give_up();
    }
  }
  Roster roster{mine_};
  for (std::string const& text : need(store_.multi_get(claims))) {
    auto record = comm::decode_record(text);
    if (!record || record->rank != static_cast<int>(roster.size()) || comm::disagreement(*record, mine_)) {
      end_with(fail(Errc::protocol, "what stands in the store for rank " + std::to_string(roster.size()) +
                                        " is no record of this version's"));
    }
    roster.push_back(*std::move(record));
  }
  if (auto const why = comm::conflict(roster)) {
    end_with(fail(Errc::usage, *why));
  }
  std::string const text = comm::encode(roster);
  if (need(store_.compare_set(session_key("roster"), "", text)) != text) {
    end_with(fail(Errc::protocol, comm::describe(mine_) + ": another process has written the list of ranks"));
  }
  return roster;
}

void Meeting::find_first() {
  for (;;) {
    auto found = store_.get(key("first"), std::chrono::ceil<Millis>(next_look() - Clock::now()));
    if (found) {
      first_text_ = *std::move(found);
      break;
    }
    if (found.error().code != Errc::timeout) {
      throw Failure(comm::in_context(mine_, found.error()));
    }
    if (Clock::now() >= config_.deadline) {
      throw Failure(in_context(
          mine_, fail(Errc::timeout,
                      "rank 0 did not come within " + seconds_text(config_.timeout) + " to the " + config_.store)));
    }
  }
  auto first = comm::decode_record(first_text_);
  if (!first) {
    throw Failure(fail(Errc::protocol,
                       comm::describe(mine_) + ": what stands in the store for rank 0 is no record of " + "cxxrun's"));
  }
  first_ = *std::move(first);
}

// What keeps this rank out of the meeting it has found, or nothing.
std::optional<Error> Meeting::enter() {
  if (auto why = comm::disagreement(mine_, first_)) {
    return fail(Errc::usage, *std::move(why));
  }
  if (need(store_.check({session_key("refused")}))) {
    return comm::decode_error(need(store_.get(session_key("refused"))));
  }
  std::string const held = need(store_.compare_set(claim_key(mine_.rank), "", my_text_));
  if (held == my_text_) {
    return std::nullopt;
  }
  auto const other = comm::decode_record(held);
  return fail(Errc::usage, "two processes have rank " + std::to_string(mine_.rank) + ": " + comm::describe(mine_) +
                               " and " + (other ? comm::describe(*other) : "one that is not of this version") +
                               "; give each worker its own RANK");
}

bool Meeting::await_another_meeting(TimePoint until) {
  while (Clock::now() < until) {
    if (moved()) {
      return true;
    }
    std::this_thread::sleep_until(std::min(next_look(), until));
  }
  return false;
}

// Nothing when rank 0 has opened another meeting.
std::optional<Meeting::Roster> Meeting::await_roster() {
  for (;;) {
    auto const text = store_.get(session_key("roster"), std::chrono::ceil<Millis>(next_look() - Clock::now()));
    if (text) {
      auto roster = comm::decode_roster(*text);
      if (!roster || static_cast<int>(roster->size()) != mine_.world ||
          (*roster)[static_cast<std::size_t>(mine_.rank)] != mine_) {
        end_with(fail(Errc::protocol, comm::describe(mine_) + ": the list of ranks in the store is not of this world"));
      }
      return roster;
    }
    look_for_refusal();
    if (moved()) {
      return std::nullopt;
    }
    if (Clock::now() >= config_.deadline) {
      give_up();
    }
  }
}

TimePoint Meeting::next_look() {
  TimePoint const look = std::min(config_.deadline, Clock::now() + slice_);
  slice_ = std::min(kLongestSlice, slice_ * 3 / 2);
  return look;
}

// A fresh store has one meeting only.
bool Meeting::moved() {
  return !config_.fresh && need(store_.get(key("first"))) != first_text_;
}

void Meeting::look_for_refusal() {
  if (need(store_.check({session_key("refused")}))) {
    end_with(comm::decode_error(need(store_.get(session_key("refused")))));
  }
}

void Meeting::give_up() {
  std::vector<int> missing;
  for (int rank = 1; rank < mine_.world; ++rank) {
    if (!need(store_.check({claim_key(rank)}))) {
      missing.push_back(rank);
    }
  }
  std::string const who = missing.empty() ? "rank 0 on " + first_.host : name_ranks(missing);
  end_with(fail(Errc::timeout, comm::describe(mine_) + ": " + who + " of " + std::to_string(mine_.world) +
                                   " did not come within " + seconds_text(config_.timeout) +
                                   "; their own output says why, or Options::init_timeout is too short"));
}

void Meeting::refuse(Error const& error) {
  if (mine_.rank == 0 && first_text_.empty()) {
    open();
  } else if (first_text_.empty()) {
    config_.deadline = std::min(config_.deadline, Clock::now() + kReasonTime);
    try {
      find_first();
    } catch (Failure const&) {
      throw Failure(error);  // nobody to tell
    }
  }
  end_with(error);
}

// The first refusal stands: everybody throws that one.
void Meeting::end_with(Error const& error) {
  auto const stands = store_.compare_set(session_key("refused"), "", comm::encode(error));
  auto const told = store_.multi_set({{told_key(mine_), ""}, {latecomer_key(mine_.rank), ""}});
  if (stands && told && config_.serves) {
    await_told();
  }
  throw Failure(stands ? comm::decode_error(*stands) : error);
}

// The store ends with this process. A rank that has not claimed its place yet may still come, and ask why, until its
// time is up; whose number two processes have, the one that has claimed it is waited for.
void Meeting::await_told() {
  bool const more_may_come = Clock::now() < config_.deadline;
  std::vector<std::string> told;
  for (int rank = 1; rank < mine_.world; ++rank) {
    auto const there = store_.check({claim_key(rank)});
    auto const text = there && *there ? store_.get(claim_key(rank)) : Result<std::string>(std::string());
    auto const record = text ? comm::decode_record(*text) : std::nullopt;
    if (record || more_may_come) {
      told.push_back(record ? told_key(*record) : latecomer_key(rank));
    }
  }
  static_cast<void>(store_.wait(told, kLinger));
}

}  // namespace cxxrun::client
