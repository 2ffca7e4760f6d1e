// KvStore: the keys and the waiters of one generation's store. Pure: no socket, no clock, no log.
//
// One request goes in, what is due to whom comes out. Not thread-safe; StoreServer's thread owns each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/wire/store_protocol.hpp"

namespace cxxrun::store {

/// Names one connection for as long as it lives; never used twice by one store.
using ConnectionId = std::uint64_t;

/// What one request leads to. The reply leaves before anybody is woken, as with torch's servers.
struct StoreOutcome {
  std::string reply;                ///< bytes for the sender; may be empty
  std::vector<ConnectionId> woken;  ///< connections whose WAIT is over: each gets one kStoreStopWaiting byte
  std::string close_reason;         ///< not empty: close the sender's connection, and why
};

class KvStore {
 public:
  /// `most_bytes`: of keys, values and pending WAITs together, with what an entry costs beside its texts.
  explicit KvStore(std::uint64_t most_bytes = UINT64_MAX) : most_bytes_(most_bytes) {}

  /// Carries out one request, or closes the connection of one that might need more than there is room for.
  ///
  /// A connection has one request in flight: whatever comes while its WAIT is pending ends that WAIT without an
  /// answer. This is how a generation-A client's timed-out WAIT is prevented from answering its next request.
  /// GET and MULTI_GET of a missing key (torch waits first, so only after a race with a delete): a plain
  /// connection is closed, a greeted one gets an empty value; each is what its own torch server does.
  StoreOutcome apply(ConnectionId from, wire::StoreDialect dialect, wire::StoreRequest request);

  /// The connection is gone: its WAIT is, too.
  void forget(ConnectionId connection);

  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Connections with a WAIT pending.
  [[nodiscard]] std::size_t waiting() const { return waits_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>{}(text); }
  };
  template <class Value>
  using ByKey = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;
  struct Wait {
    std::vector<std::string> missing;  // every key that was missing when the WAIT came
    std::size_t left = 0;              // how many of them still are
    std::uint64_t bytes = 0;           // that it costs
  };
  struct Apply;

  using Waits = std::unordered_map<ConnectionId, Wait>;
  void store(std::string key, std::string value, std::vector<ConnectionId>& woken);
  void replace(std::string& value, std::string with);
  void end(Waits::iterator wait);

  std::uint64_t most_bytes_;
  std::uint64_t bytes_ = 0;
  ByKey<std::string> values_;
  ByKey<std::set<ConnectionId>> waiters_;  // only keys that do not exist
  Waits waits_;
};

}  // namespace cxxrun::store
