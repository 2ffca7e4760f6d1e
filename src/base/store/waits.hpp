// Waits: which connections wait, and for which keys. Pure; KvStore owns one and tells it what happens to keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cxxrun::store {

/// Names one connection for as long as it lives; never used twice by one store.
using ConnectionId = std::uint64_t;

/// Lets a map of strings be asked with a string_view. Not noexcept: then libstdc++ keeps the hash of each key, and does
/// not read the other keys of a bucket.
struct KeyHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class Value>
using ByKey = std::unordered_map<std::string, Value, KeyHash, std::equal_to<>>;

/// A connection waits for one thing at a time: a later wait replaces the earlier one. `bytes` is what it is said to
/// cost.
class Waits {
 public:
  /// Until each of the keys, none of which exists, has been created or has had something pushed to its queue.
  void for_keys(ConnectionId who, std::vector<std::string> missing, std::uint64_t bytes);
  /// Until the count of the barrier `key` has come to `world`.
  void at_barrier(ConnectionId who, std::string key, std::int64_t world, std::uint64_t bytes);
  /// Ends the wait, if there is one, without an answer.
  void forget(ConnectionId who);

  /// What has happened to a key. `woken` gets those whose wait is over, in the order in which they began to wait.
  void created(std::string_view key, std::vector<ConnectionId>& woken);
  /// Something is in the queue for one: whoever could be woken after the first one stays.
  void pushed(std::string_view key, std::vector<ConnectionId>& woken);
  void counted(std::string_view key, std::int64_t count, std::vector<ConnectionId>& woken);

  [[nodiscard]] std::size_t size() const { return waits_.size(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  struct Wait {
    std::uint64_t ticket = 0;       // a higher one began later
    std::vector<std::string> keys;  // that it stands in line for, or has
    std::size_t left = 0;           // how many of them have not come
    std::int64_t world = 0;         // of a barrier
    std::uint64_t bytes = 0;
  };
  using Line = std::map<std::uint64_t, ConnectionId>;  // by ticket
  using All = std::unordered_map<ConnectionId, Wait>;

  All::iterator begin(ConnectionId who, std::uint64_t bytes);
  void leave(ByKey<Line>& lines, std::string_view key, std::uint64_t ticket);
  void end(All::iterator wait, std::vector<ConnectionId>& woken);

  std::uint64_t tickets_ = 0;
  std::uint64_t bytes_ = 0;
  ByKey<Line> missing_;   // only keys that do not exist
  ByKey<Line> barriers_;  // only those that somebody waits at
  All waits_;
};

}  // namespace cxxrun::store
