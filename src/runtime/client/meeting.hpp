// Meeting: the ranks of one world find each other in the store. Shell; docs/use/communicator.md has the keys and rules.
//
// Blocking until the deadline. Errors: Failure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cxxrun/failure.hpp"
#include "cxxrun/store.hpp"
#include "cxxrun/worker_env.hpp"
#include "src/base/core/time.hpp"
#include "src/runtime/comm/join_record.hpp"

namespace cxxrun::client {

struct MeetingConfig {
  std::string prefix;   ///< of all keys: this run, generation and Communicator
  bool fresh = true;    ///< the store began with this generation: what stands there is not from before
  bool serves = false;  ///< this process hosts the store: on failure it waits for the others to have read why
  std::string store;    ///< "store at HOST port N", for messages
  Millis timeout{};     ///< for messages
  TimePoint deadline;
};

class Meeting {
 public:
  Meeting(Store store, MeetingConfig config, comm::JoinRecord mine);

  /// Everybody's records, by rank.
  [[nodiscard]] std::vector<comm::JoinRecord> meet();
  /// For a rank that cannot take part: the others learn why, then this throws it.
  [[noreturn]] void refuse(Error const& error);

 private:
  using Roster = std::vector<comm::JoinRecord>;

  template <class T>
  [[nodiscard]] T need(Result<T> result) const;  // or throws, saying which rank could not go on
  [[nodiscard]] std::string key(std::string const& name) const { return config_.prefix + "/" + name; }
  [[nodiscard]] std::string session_key(std::string const& name) const {
    return key(std::to_string(first_.nonce)) + "/" + name;
  }
  [[nodiscard]] std::string claim_key(int rank) const { return session_key("rank" + std::to_string(rank)); }
  [[nodiscard]] std::string told_key(comm::JoinRecord const& who) const {
    return session_key("told" + std::to_string(who.nonce));
  }
  [[nodiscard]] std::string latecomer_key(int rank) const { return session_key("told_rank" + std::to_string(rank)); }
  [[nodiscard]] TimePoint next_look();

  void open();
  [[nodiscard]] Roster collect();
  void find_first();
  [[nodiscard]] std::optional<Error> enter();
  [[nodiscard]] bool await_another_meeting(TimePoint until);
  [[nodiscard]] std::optional<Roster> await_roster();
  [[nodiscard]] bool moved();
  void look_for_refusal();
  [[noreturn]] void give_up();
  [[noreturn]] void end_with(Error const& error);
  void await_told();

  Store store_;
  MeetingConfig config_;
  comm::JoinRecord mine_;
  std::string my_text_;
  comm::JoinRecord first_;
  std::string first_text_;  // empty: no meeting found yet
  Millis slice_;
};

}  // namespace cxxrun::client
