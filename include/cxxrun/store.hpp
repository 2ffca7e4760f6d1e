// Store: a worker's connection to the key-value store of its generation.
//
// Ranks find each other through the store: one writes an address under a key, the others wait for that key. It is the
// c10d store that torch's TCPStore talks to, on the same port, and the keys are shared: like torch's client, this one
// puts a "/" in front of every key, so `set("x", …)` here is `store.get("x")` in a Python rank of the same job. Key k
// of a torch PrefixStore("p", …) is "p/k" here. docs/design/store_protocol.md describes the bytes.
//
// Threads: a Store is one TCP connection without a lock; use it from one thread at a time. A thread that needs the
// store at the same time as another opens its own Store: connections are cheap. A Store is movable, not copyable, and
// closes its connection when destroyed. Using the parent's Store in a forked child gives Errc::usage.
//
// Blocking: every call returns at the latest when `timeout` has passed; wait, get and multi_get up to 5 s later if the
// server has fallen silent. Calls that only send (set, append, multi_set) return when the kernel has taken the bytes;
// if the server refuses the request, the next call reports it.
//
// Errors: a key that does not appear in time gives Errc::timeout and leaves the Store usable. A server that does not
// answer at all, or that answers nonsense, leaves the connection in an unknown state: this call and all later ones fail
// (Errc::timeout, Errc::closed or Errc::protocol), and only a new Store helps.
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

/// Where a store listens: a host name or a literal IPv4 or IPv6 address (without brackets), and a port.
struct StoreAddress {
  std::string host;
  std::uint16_t port = 0;
  bool operator==(StoreAddress const&) const = default;
};

/// See the top of this file for threads, blocking and errors.
class Store {
 public:
  using Millis = std::chrono::milliseconds;
  /// The default timeout of torch's TCPStore.
  static constexpr Millis kDefaultTimeout = std::chrono::minutes(5);

  /// Connects and exchanges the greeting. Retries a refused or reset connection, an unreachable host and a name that
  /// does not resolve until `timeout` has passed, with growing pauses of at most one second: the server may start after
  /// its clients. `timeout` is also the default of every later call without a timeout of its own. Name resolution may
  /// exceed it by the resolver's own time limit.
  /// Errors: timeout (with the last reason), protocol (another service listens there), usage (no host or port).
  static Result<Store> connect(StoreAddress const& address, Millis timeout = kDefaultTimeout);

  Store(Store const&) = delete;
  Store& operator=(Store const&) = delete;
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// Writes a key; overwrites an existing one. A key has at most 8 KiB, a value 64 MiB (8 MiB with torch's newer
  /// server). Anything longer is not sent, here and in the calls below.
  /// Errors: usage (names the limit).
  Result<void> set(std::string_view key, std::string_view value);

  /// Waits for a key and returns its value.
  /// Errors: timeout (the key did not appear).
  Result<std::string> get(std::string_view key);
  Result<std::string> get(std::string_view key, Millis timeout);

  /// Adds `delta` to the decimal number stored under `key` and returns the sum. A missing key counts as 0, so
  /// `add(key, 0)` creates it. If the value is not a number, the server closes the connection: Errc::closed.
  Result<std::int64_t> add(std::string_view key, std::int64_t delta);

  /// Waits until all keys exist. A key that appears and is deleted during the wait counts as existing.
  /// Errors: timeout.
  Result<void> wait(std::vector<std::string> const& keys);
  Result<void> wait(std::vector<std::string> const& keys, Millis timeout);

  /// Whether all keys exist now; true for an empty list.
  Result<bool> check(std::vector<std::string> const& keys);

  /// Atomically writes `desired` if the key holds `expected`, and returns the value afterwards. An empty `expected`
  /// also matches a missing key. If the key is missing and `expected` is not empty, nothing is written and `expected`
  /// is returned, as torch's servers do: so compare the result with `desired`, not with `expected`.
  Result<std::string> compare_set(std::string_view key, std::string_view expected, std::string_view desired);

  /// Removes a key. Returns false if it did not exist.
  Result<bool> delete_key(std::string_view key);

  /// How many keys the store holds, including the bookkeeping of other clients (torch's "init/").
  Result<std::int64_t> num_keys();

  /// Appends `value` to the value of the key; creates the key if it is missing.
  Result<void> append(std::string_view key, std::string_view value);

  /// Waits until all keys exist and returns their values in order: one round trip to wait, one to read. At most 131072
  /// keys.
  /// Errors: timeout.
  Result<std::vector<std::string>> multi_get(std::vector<std::string> const& keys);
  Result<std::vector<std::string>> multi_get(std::vector<std::string> const& keys, Millis timeout);

  /// Writes several keys in one request of at most 128 MiB in total.
  Result<void> multi_set(std::vector<std::pair<std::string, std::string>> const& pairs);

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cxxrun
