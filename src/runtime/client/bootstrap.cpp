#include "src/runtime/client/bootstrap.hpp"

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/core/text.hpp"
#include "src/base/store/store_server.hpp"

namespace cxxrun::client {

constexpr Millis kFirstSlice{20};
constexpr Millis kLongestSlice{500};
/// If an earlier bootstrap may have left keys in the store, a rank waits for a newer bootstrap until this long before
/// its timeout: then it reports the obstacle early enough for the others to hear it.
constexpr Millis kTimeToTell{2000};
/// How long a rank that serves the store waits for the others to read why the bootstrap failed. Longer than a process
/// needs to start on a busy machine.
constexpr Millis kLinger{5000};
/// How long a rank that cannot take part looks for the bootstrap in order to report why.
constexpr Millis kReasonTime{2000};

template <class T>
T Bootstrap::need(Result<T> result) const {
  return or_throw(result ? std::move(result) : comm::in_context(mine_, result.error()));
}

Bootstrap::Bootstrap(Store store, BootstrapConfig config, comm::JoinRecord mine)
    : store_(std::move(store)),
      config_(std::move(config)),
      mine_(std::move(mine)),
      my_text_(encode(mine_)),
      slice_(kFirstSlice) {}

std::vector<comm::JoinRecord> Bootstrap::meet() {
  if (mine_.rank == 0) {
    open();
    return collect();
  }
  TimePoint const patience =
      config_.fresh ? Clock::now() : config_.deadline - std::min(kTimeToTell, config_.timeout / 4);
  for (;;) {
    find_first();
    if (auto const obstacle = enter()) {
      if (!await_another_bootstrap(patience)) {
        end_with(*obstacle);
      }
    } else if (auto roster = await_roster()) {
      return *std::move(roster);
    }
  }
}

/// Rank 0 writes its record. In a fresh store there must be none yet.
void Bootstrap::open() {
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

// Rank 0 waits for the claims of all others.
Bootstrap::Roster Bootstrap::collect() {
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
      find_first();  // ranks that follow the other rank 0 learn it too
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
      end_with(fail(Errc::protocol, "the store has no valid record for rank " + std::to_string(roster.size())));
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

/// Waits for the record of rank 0.
void Bootstrap::find_first() {
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
    throw Failure(fail(Errc::protocol, comm::describe(mine_) + ": the store has no valid record for rank 0"));
  }
  first_ = *std::move(first);
}

// Returns what keeps this rank out of the bootstrap it has found, or nothing.
std::optional<Error> Bootstrap::enter() {
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

bool Bootstrap::await_another_bootstrap(TimePoint until) {
  while (Clock::now() < until) {
    if (moved()) {
      return true;
    }
    std::this_thread::sleep_until(std::min(next_look(), until));
  }
  return false;
}

// Returns nothing if rank 0 has opened another bootstrap.
std::optional<Bootstrap::Roster> Bootstrap::await_roster() {
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

TimePoint Bootstrap::next_look() {
  TimePoint const look = std::min(config_.deadline, Clock::now() + slice_);
  slice_ = std::min(kLongestSlice, slice_ * 3 / 2);
  return look;
}

// A fresh store has only one bootstrap.
bool Bootstrap::moved() {
  return !config_.fresh && need(store_.get(key("first"))) != first_text_;
}

void Bootstrap::look_for_refusal() {
  if (need(store_.check({session_key("refused")}))) {
    end_with(comm::decode_error(need(store_.get(session_key("refused")))));
  }
}

void Bootstrap::give_up() {
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

void Bootstrap::refuse(Error const& error) {
  if (mine_.rank == 0 && first_text_.empty()) {
    open();
  } else if (first_text_.empty()) {
    config_.deadline = std::min(config_.deadline, Clock::now() + kReasonTime);
    try {
      find_first();
    } catch (Failure const&) {
      throw Failure(error);  // there is nobody to tell
    }
  }
  end_with(error);
}

// The first refusal stays in the store, and every rank throws that one.
void Bootstrap::end_with(Error const& error) {
  auto const stands = store_.compare_set(session_key("refused"), "", comm::encode(error));
  auto const told = store_.multi_set({{told_key(mine_), ""}, {latecomer_key(mine_.rank), ""}});
  if (stands && told && config_.serves) {
    await_told();
  }
  throw Failure(stands ? comm::decode_error(*stands) : error);
}

// The store ends with this process. Until the timeout, a rank that has not claimed its place yet may still come and ask
// why the bootstrap failed. If two processes have the same rank, this waits for the one that has claimed it.
void Bootstrap::await_told() {
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

// ---- hosting the store

namespace {

// Never destroyed: exit() in one thread must not take the store away from another.
struct Hosted {
  std::mutex mutex;
  std::unique_ptr<store::StoreServer> server;
  std::set<std::uint16_t> ports;
};

Hosted& hosted() {
  static auto* const it = new Hosted;  // NOLINT(cppcoreguidelines-owning-memory)
  return *it;
}

// Excludes other loopback addresses: a store that listens at 127.0.0.1 is not reachable at 127.0.0.2.
bool is_where_loopback_listens(std::string const& host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1";
}

Error explain(Error error, std::uint16_t port) {
  std::string const what = "rank 0 is to host the store, but ";
  error.context = error.code == Errc::in_use
                      ? what + "port " + std::to_string(port) +
                            " is taken by another program on this machine; choose another MASTER_PORT on all ranks"
                      : what + error.context;
  return error;
}

}  // namespace

Result<void> host_store(StoreAddress const& address) {
  Hosted& here = hosted();
  std::lock_guard const lock(here.mutex);
  if (here.ports.contains(address.port)) {
    return {};
  }
  try {
    if (!here.server) {
      here.server = std::make_unique<store::StoreServer>();
    }
    here.server->begin();
  } catch (std::system_error const& error) {
    return explain(fail(Errc::io, "there is no thread for it", error.code().value()), address.port);
  }
  auto const port = here.server->open(address.port, {address.port, is_where_loopback_listens(address.host)});
  if (!port) {
    return explain(port.error(), address.port);
  }
  here.ports.insert(*port);
  return {};
}

}  // namespace cxxrun::client
