// StoreServer: serves the c10d stores of the generations, on a thread of its own.
//
// One listener and one KvStore per generation; a storm of connections or requests never delays supervision.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "cxxrun/error.hpp"
#include "src/store/store_listen.hpp"

namespace cxxrun::store {

/// Of one store; who goes beyond them is closed by name, or waits.
struct StoreLimits {
  std::uint64_t held = 1ULL << 30U;      ///< keys, values, WAITs and requests that have come in part
  std::uint64_t unsent = 256ULL << 20U;  ///< replies that nobody has taken yet, and the one that crossed it
};

class StoreServer {
 public:
  /// Hears of connections that are closed for what they sent, and of a lack of descriptors; on the store's thread.
  using Warn = std::function<void(std::string const& line)>;

  /// Starts the thread; signals are blocked in it. std::system_error without one. Half of the descriptors that this
  /// process may have now are for connections.
  explicit StoreServer(Warn warn = {}, StoreLimits limits = {});
  ~StoreServer();  ///< Closes every store and joins the thread.
  StoreServer(StoreServer const&) = delete;
  StoreServer& operator=(StoreServer const&) = delete;
  StoreServer(StoreServer&&) = delete;
  StoreServer& operator=(StoreServer&&) = delete;

  /// Binds and listens at once (so the port is known and reachable on return) and serves until `close`.
  /// Returns the bound port. Errors: in_use naming the port, io. Callable from any thread.
  Result<std::uint16_t> open(std::uint64_t generation, StoreBind const& where);
  /// Ends a generation's store: listener and all its connections. Unknown numbers are ignored. Any thread.
  void close(std::uint64_t generation);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cxxrun::store
