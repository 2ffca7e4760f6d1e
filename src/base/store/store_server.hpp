// StoreServer: serves the c10d stores of the generations, on a thread of its own.
//
// One listener and one KvStore per generation; a storm of connections or requests never delays supervision.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/os/listening.hpp"
#include "src/base/store/store_terms.hpp"

namespace cxxrun::store {

class StoreServer {
 public:
  static constexpr std::size_t kMostShut = 16;

  /// Half of the descriptors that this process may have now are for connections.
  explicit StoreServer(StoreWarn warn = {}, StoreLimits limits = {}, StoreKeep keep = {});
  ~StoreServer();  ///< Closes every store and joins the thread, if there is one.
  StoreServer(StoreServer const&) = delete;
  StoreServer& operator=(StoreServer const&) = delete;
  StoreServer(StoreServer&&) = delete;
  StoreServer& operator=(StoreServer&&) = delete;

  /// Starts the thread, unless it runs; signals are blocked in it. std::system_error when the system refuses one.
  void begin();
  /// Begins, binds and listens at once (so the port is known and reachable on return) and serves until `close`. The
  /// port of a store that was closed is taken over from it without being free in between. Returns the bound port.
  /// Errors: in_use naming the port, io; permission or io when it is to be for one user and nothing here tells whose a
  /// connection is. One thread at a time.
  Result<std::uint16_t> open(std::uint64_t generation, os::ListenAt const& where, StoreDoor door = {});
  /// What the hosts of a generation's callers say. Behind `open`, any thread.
  void tell(std::uint64_t generation, std::vector<CallerNews> news);
  /// Ends a generation's store and all its connections. Whoever calls its port finds the connection closed, and nobody
  /// else can listen there as long as this server lives, unless kMostShut more stores are closed. Unknown numbers are
  /// ignored. Behind `open`, any thread.
  void close(std::uint64_t generation);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cxxrun::store
