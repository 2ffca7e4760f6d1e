// KvStore: the keys and the waiters of one generation's store. Pure: no socket, no clock, no log.
//
// One request goes in, what is due to whom comes out. Not thread-safe; StoreServer's thread owns each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "src/base/store/waits.hpp"
#include "src/base/wire/store_protocol.hpp"

namespace cxxrun::store {

/// What one request leads to. The reply leaves before anybody else is woken, as with torch's servers.
struct StoreOutcome {
  std::string reply;                ///< bytes for the sender; may be empty
  std::vector<ConnectionId> woken;  ///< others whose WAIT or BARRIER is over: each gets one kStoreStopWaiting byte
  std::string close_reason;         ///< not empty: close the sender's connection, and why
};

class KvStore {
 public:
  /// `most_bytes`: of keys, values and pending WAITs together, with what an entry costs beside its texts.
  explicit KvStore(std::uint64_t most_bytes = UINT64_MAX) : most_bytes_(most_bytes) {}

  /// Carries out one request, or closes the connection of one that might need more than there is room for.
  ///
  /// A plain connection has one request in flight: whatever comes while its WAIT is pending ends that WAIT without an
  /// answer. This is how a generation-A client's timed-out WAIT is prevented from answering its next request. A greeted
  /// connection ends a WAIT or BARRIER with CANCEL_WAIT, or with another one; until then other requests are answered.
  /// GET and MULTI_GET of a missing key (torch waits first, so only after a race with a delete): a plain
  /// connection is closed, a greeted one gets an empty value; each is what its own torch server does.
  StoreOutcome apply(ConnectionId from, wire::StoreDialect dialect, wire::StoreRequest const& request);

  /// The connection is gone: its WAIT is, too.
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
