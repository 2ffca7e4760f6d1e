// KvStore: the keys and the waiters of one generation's store. Pure: no socket, no clock, no log.
//
// One request goes in; the reply and the connections to wake come out. Not thread-safe: StoreServer's thread owns each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/base/wire/store_protocol.hpp"

namespace cxxrun::store {

/// A connection of a store. A store never uses an id twice.
using ConnectionId = std::uint64_t;

/// Lets a map of strings be searched with a string_view. Deliberately not noexcept: libstdc++ then stores the hash of
/// each key, and need not read the other keys of a bucket.
struct KeyHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class Value>
using ByKey = std::unordered_map<std::string, Value, KeyHash, std::equal_to<>>;

/// Which connections wait, and for which keys. A connection has one wait at a time: a later one replaces it. `bytes` is
/// what the caller counts for a wait.
class Waits {
 public:
  /// Waits until each of the keys has been created or had something pushed to its queue. None of them exists yet.
  void wait_for_keys(ConnectionId who, std::vector<std::string> missing, std::uint64_t bytes);
  /// Waits until the count of the barrier `key` reaches `world`.
  void wait_at_barrier(ConnectionId who, std::string key, std::int64_t world, std::uint64_t bytes);
  /// Ends the wait, if there is one, without an answer.
  void forget(ConnectionId who);

  // What has happened to a key. `woken` gets the connections whose wait is over, in the order in which they began.

  void on_created(std::string_view key, std::vector<ConnectionId>& woken);
  /// One item is in the queue, so only the first waiter that this completes is woken.
  void on_pushed(std::string_view key, std::vector<ConnectionId>& woken);
  void on_counted(std::string_view key, std::int64_t count, std::vector<ConnectionId>& woken);

  [[nodiscard]] std::size_t size() const { return waits_.size(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  struct Wait {
    std::uint64_t ticket = 0;       // a higher one began later
    std::vector<std::string> keys;  // all that it waits or waited for
    std::size_t left = 0;           // how many of them are still missing
    std::int64_t world = 0;         // of a barrier
    std::uint64_t bytes = 0;
  };
  using Line = std::map<std::uint64_t, ConnectionId>;  // by ticket
  using All = std::unordered_map<ConnectionId, Wait>;

  All::iterator start(ConnectionId who, std::uint64_t bytes);
  void leave(ByKey<Line>& lines, std::string_view key, std::uint64_t ticket);
  void end(All::iterator wait, std::vector<ConnectionId>& woken);

  std::uint64_t tickets_ = 0;
  std::uint64_t bytes_ = 0;
  ByKey<Line> missing_;   // only keys that do not exist
  ByKey<Line> barriers_;  // only barriers with a waiter
  All waits_;
};

/// What one request leads to. The reply is sent before others are woken, as torch's servers do.
struct StoreOutcome {
  std::string reply;                ///< bytes for the sender; may be empty
  std::vector<ConnectionId> woken;  ///< others whose WAIT or BARRIER is over: each gets one kStoreStopWaiting byte
  std::string close_reason;         ///< if not empty: close the sender's connection, for this reason
};

class KvStore {
 public:
  /// `most_bytes`: for keys, values and pending WAITs together, including the overhead of their entries.
  explicit KvStore(std::uint64_t most_bytes = UINT64_MAX) : most_bytes_(most_bytes) {}

  /// Carries out one request, or closes its connection when it might need more than `most_bytes`.
  ///
  /// A plain connection has one request in flight: any request that comes while its WAIT is pending ends that WAIT
  /// without an answer. So a WAIT that timed out in a generation-A client cannot answer the client's next request. A
  /// greeted connection ends a WAIT or BARRIER with CANCEL_WAIT or another WAIT or BARRIER; until then its other
  /// requests are answered. GET or MULTI_GET of a missing key (torch waits first, so only after a race with a delete)
  /// closes a plain connection and gives a greeted one an empty value, as torch's own server of each kind does.
  StoreOutcome apply(ConnectionId from, wire::StoreDialect dialect, wire::StoreRequest const& request);

  /// The connection is gone: ends its WAIT.
  void forget(ConnectionId connection) { waits_.forget(connection); }

  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_ + waits_.bytes(); }
  /// Connections with a WAIT or BARRIER pending.
  [[nodiscard]] std::size_t waiting() const { return waits_.size(); }

 private:
  struct Apply;

  [[nodiscard]] bool present(std::string_view key) const { return values_.contains(key) || queues_.contains(key); }
  void store(wire::Text const& key, wire::Text const& value, std::vector<ConnectionId>& woken);
  void replace(std::string& value, wire::Text const& with);

  std::uint64_t most_bytes_;
  std::uint64_t bytes_ = 0;  // of values and queues
  ByKey<std::string> values_;
  ByKey<std::deque<std::string>> queues_;  // none is empty
  Waits waits_;
};

}  // namespace cxxrun::store
