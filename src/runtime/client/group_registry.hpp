// GroupRegistry: the Communicator that met in the store and the groups split from it, of one process and generation.
// Shell.
//
// A failure of one of them ends all, with the same failure. A rank may wait in one group for a rank whose call failed
// in another group: it must be told who died, not that a healthy rank left. Every member tells the ranks it is
// connected to; that way the failure reaches all groups of the ranks that know of it, and so on.
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

#include "src/runtime/client/engine.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/node/alarm.hpp"

namespace cxxrun::client {

class GroupRegistry : public std::enable_shared_from_this<GroupRegistry> {
 public:
  GroupRegistry() = default;
  GroupRegistry(GroupRegistry const&) = delete;
  GroupRegistry& operator=(GroupRegistry const&) = delete;
  GroupRegistry(GroupRegistry&&) = delete;
  GroupRegistry& operator=(GroupRegistry&&) = delete;
  ~GroupRegistry() = default;

  /// Wraps `backend` as a member. `here` ("rank 3 on node2") is used for failures that name no rank.
  [[nodiscard]] std::unique_ptr<host::Backend> member(std::unique_ptr<host::Backend> backend, std::string here);
  /// Ends the calls of all members with `why`, unless they have failed before. Returns when the connected ranks have
  /// been told, as far as the connections accept it: after about a millisecond.
  void end(std::exception_ptr const& why, std::string const& here) noexcept { end_others(nullptr, why, here); }
  /// From now on members that fail throw `why`; end() makes them fail. Only the first `why` counts.
  void keep(std::exception_ptr const& why) noexcept;
  /// The message of the first failure; empty if there is none.
  [[nodiscard]] std::string why() const;
  /// Whether the first failure is a PeerFailure that names this rank of the world.
  [[nodiscard]] bool blames(int rank) const;

  /// Registers a group's engine, to be closed when the generation is given up.
  void adopt(std::weak_ptr<Engine> group);
  /// The Communicator leaves its generation: its groups make no more calls. Not while a group makes a blocking call.
  void give_up() noexcept;
  [[nodiscard]] bool given_up() const noexcept { return given_up_.load(std::memory_order_acquire); }

 private:
  class Member;
  void end_others(Member const* except, std::exception_ptr const& why, std::string const& here) noexcept;
  [[noreturn]] void raise_first() const;

  mutable std::mutex mutex_;  // protects everything below; held while iterating over the members
  std::optional<KeptFailure> first_;
  std::vector<Member*> members_;
  std::vector<std::weak_ptr<Engine>> groups_;
  std::atomic<bool> given_up_{false};
};

}  // namespace cxxrun::client
