// Bootstrap: how the ranks of one world find each other in the store. Shell; docs/use/communicator.md has the keys and
// rules.
//
// Bootstrap blocks until the deadline. Errors: Failure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "cxxrun/failure.hpp"
#include "cxxrun/store.hpp"
#include "cxxrun/worker_env.hpp"
#include "src/base/core/time.hpp"
#include "src/runtime/comm/join_record.hpp"

namespace cxxrun::client {

struct BootstrapConfig {
  std::string prefix;  ///< of all keys: identifies run, generation and Communicator
  bool fresh = true;   ///< the store began with this generation: it has no keys of earlier meetings
  bool serves =
      false;          ///< this process hosts the store: after a failure it waits until the others have read the reason
  std::string store;  ///< "store at HOST port N", for messages
  Millis timeout{};   ///< for messages
  TimePoint deadline;
};

class Bootstrap {
 public:
  Bootstrap(Store store, BootstrapConfig config, comm::JoinRecord mine);

  /// Returns the records of all ranks, by rank.
  [[nodiscard]] std::vector<comm::JoinRecord> meet();
  /// For a rank that cannot take part: tells the others why, then throws it.
  [[noreturn]] void refuse(Error const& error);

 private:
  using Roster = std::vector<comm::JoinRecord>;

  template <class T>
  [[nodiscard]] T need(Result<T> result) const;  // throws Failure that names this rank
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
  [[nodiscard]] bool await_another_bootstrap(TimePoint until);
  [[nodiscard]] std::optional<Roster> await_roster();
  [[nodiscard]] bool moved();
  void look_for_refusal();
  [[noreturn]] void give_up();
  [[noreturn]] void end_with(Error const& error);
  void await_told();

  Store store_;
  BootstrapConfig config_;
  comm::JoinRecord mine_;
  std::string my_text_;
  comm::JoinRecord first_;
  std::string first_text_;  // empty: no bootstrap found yet
  Millis slice_;
};

// ---- Hosting the store in rank 0, for worlds whose launcher does not: plain srun or mpirun, and launchers that leave
// MASTER_PORT to rank 0. The others connect with Store::connect, which retries until its timeout.

/// When this returns, a store listens on the port of `address` (only on loopback if `address` is loopback). It lives
/// until this process ends, because peers may still read after this rank is done; a second call for the same port does
/// nothing. A separate thread with blocked signals serves it; not in forked children. Callable from any thread. Errors:
/// in_use (names the port), permission, io.
[[nodiscard]] Result<void> host_store(StoreAddress const& address);

}  // namespace cxxrun::client
