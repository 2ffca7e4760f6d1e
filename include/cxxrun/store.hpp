// Store: a worker's connection to the key-value store of its generation.
//
// The store is how ranks meet: one writes an address under a key, the others wait for it. It is the same c10d
// store that torch's TCPStore talks to, on the same port, and keys are shared: every key is sent with a "/" in
// front, as torch's client does, so `set("x", …)` here is `store.get("x")` in a Python rank of the same job.
// (A torch PrefixStore("p", …) key k is "p/k" here.) docs/design/store_protocol.md has the bytes.
//
// One Store is one TCP connection and serves one thread at a time; it has no lock. Threads that need the store
// at the same time open one each: connections are cheap. A Store is movable, not copyable, and closes its
// connection when destroyed. A forked child that uses its parent's gets Errc::usage.
//
// Every call blocks until the server has answered or `timeout` has passed, and no longer. Calls that send only
// (set, append, multi_set) return when the kernel has taken the bytes: a refusal shows at the next call.
// Waiting for a key that comes too late gives Errc::timeout and leaves the Store usable. A server that does not
// answer at all, or answers nonsense, leaves the connection in an unknown state: that call and all later ones
// fail (Errc::timeout, Errc::closed or Errc::protocol), and the only remedy is a new Store.
#pragma once

#include "cxxrun/version.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cxxrun/error.hpp"

namespace cxxrun {

/// Where a store listens: a name or a literal IPv4 or IPv6 address (without brackets), and a port.
struct StoreAddress {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(StoreAddress const&) const = default;
};

class Store {
 public:
  using Millis = std::chrono::milliseconds;
  /// What torch gives a TCPStore when nobody says otherwise.
  static constexpr Millis kDefaultTimeout = std::chrono::minutes(5);

  /// Connects and exchanges the greeting. Until `timeout` has passed, a refused or reset connection, a host that
  /// cannot be reached and a name that cannot be resolved are tried again, with growing pauses of at most one
  /// second: the server may start later than its clients. `timeout` then also bounds each later call that is
  /// not given its own. Resolving a name may overrun it by the resolver's own time limit.
  /// Errors: timeout (naming the last reason), protocol (something else listens there), usage (no host or port).
  static Result<Store> connect(StoreAddress const& address, Millis timeout = kDefaultTimeout);

  Store(Store const&) = delete;
  Store& operator=(Store const&) = delete;
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// Writes a key, whether or not it exists. Keys are at most 8 KiB, values 64 MiB; torch's newer server takes 8. Here
  /// and below, what is longer is not sent. Errors: usage (naming the limit).
  Result<void> set(std::string_view key, std::string_view value);

  /// The value of a key, once it exists. Errors: timeout when it does not come into being.
  Result<std::string> get(std::string_view key);
  Result<std::string> get(std::string_view key, Millis timeout);

  /// Adds to the number a key holds as decimal text and returns the sum; a missing key counts as 0, so
  /// `add(key, 0)` creates it. A value that is no number makes the server close the connection: Errc::closed.
  Result<std::int64_t> add(std::string_view key, std::int64_t delta);

  /// Returns when all keys exist. A key deleted again while the others are awaited still counts.
  /// Errors: timeout.
  Result<void> wait(std::vector<std::string> const& keys);
  Result<void> wait(std::vector<std::string> const& keys, Millis timeout);

  /// Whether all keys exist now; true for no key at all.
  Result<bool> check(std::vector<std::string> const& keys);

  /// Writes `desired` if the key holds `expected`, atomically, and returns what it holds afterwards. An empty
  /// `expected` also matches a missing key. For a missing key and any other `expected` nothing is written and
  /// `expected` comes back, as from torch's servers: compare with `desired`, not with `expected`.
  Result<std::string> compare_set(std::string_view key, std::string_view expected, std::string_view desired);

  /// Removes a key; false when there was none.
  Result<bool> delete_key(std::string_view key);

  /// How many keys the store holds, other clients' bookkeeping (torch's "init/") included.
  Result<std::int64_t> num_keys();

  /// Puts `value` behind what the key holds; creates the key when it is missing.
  Result<void> append(std::string_view key, std::string_view value);

  /// The values of several keys, in order, once all exist: one round trip to wait and one to read.
  /// At most 131072 keys. Errors: timeout.
  Result<std::vector<std::string>> multi_get(std::vector<std::string> const& keys);
  Result<std::vector<std::string>> multi_get(std::vector<std::string> const& keys, Millis timeout);

  /// Writes several keys in one request; all of it at most 128 MiB.
  Result<void> multi_set(std::vector<std::pair<std::string, std::string>> const& pairs);

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cxxrun
