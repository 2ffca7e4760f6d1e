// Family: a Communicator that met in the store and the groups split from it, in one process and one generation. Shell.
//
// What ends one of them ends all, with the same failure: a rank that waits in one group for a rank whose call failed in
// another must hear whose death that was, not that a healthy rank left. Every member tells the ranks it is connected
// to, so that the news reaches all groups of the ranks that have it, and so on.
//
// Threads: any.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/runtime/client/reason.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/node/alarm.hpp"

namespace cxxrun::client {

class Engine;

class Family : public std::enable_shared_from_this<Family> {
 public:
  Family() = default;
  Family(Family const&) = delete;
  Family& operator=(Family const&) = delete;
  Family(Family&&) = delete;
  Family& operator=(Family&&) = delete;
  ~Family() = default;

  /// `backend` as a member. `here` ("rank 3 on node2") is for failures without a name.
  [[nodiscard]] std::unique_ptr<host::Backend> member(std::unique_ptr<host::Backend> backend, std::string here);
  /// Ends all members' calls with `why`, except where they have failed before. Returns when the ranks that they lead
  /// to have been told, as far as their connections take it: after about a millisecond.
  void end(std::exception_ptr const& why, std::string const& here) noexcept { end_others(nullptr, why, here); }
  /// Whatever members fail with from now on, they throw `why`; they end by end(). The first `why` counts.
  void keep(std::exception_ptr const& why) noexcept;
  /// The sentence of the first failure; empty: none yet.
  [[nodiscard]] std::string why() const;
  /// Whether that is a PeerFailure which names this rank of the world.
  [[nodiscard]] bool blames(int rank) const;

  /// A group's engine: closed when the generation is given up.
  void adopt(std::weak_ptr<Engine> group);
  /// The Communicator of the family meets another generation: its groups make no more calls. Not while one of them
  /// makes a call, other than in the background.
  void give_up() noexcept;
  [[nodiscard]] bool given_up() const noexcept { return given_up_.load(std::memory_order_acquire); }

 private:
  class Member;
  void end_others(Member const* except, std::exception_ptr const& why, std::string const& here) noexcept;
  [[noreturn]] void raise_first() const;

  mutable std::mutex mutex_;  // of all below, and of who goes through the members
  std::optional<Reason> first_;
  std::vector<Member*> members_;
  std::vector<std::weak_ptr<Engine>> groups_;
  std::atomic<bool> given_up_{false};
};

}  // namespace cxxrun::client
