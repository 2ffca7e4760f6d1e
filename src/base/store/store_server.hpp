// StoreServer: serves the c10d stores of the generations on its own thread, so that a storm of connections or requests
// never delays supervision. Shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/os/tcp_sockets.hpp"
#include "src/base/store/admission.hpp"

namespace cxxrun::store {

class StoreServer {
 public:
  /// How many closed stores keep their ports.
  static constexpr std::size_t kMostShut = 16;

  /// Connections may use half of the descriptors that this process may have now.
  explicit StoreServer(StoreWarn warn = {}, StoreLimits limits = {}, StoreKeep keep = {});
  ~StoreServer();  ///< Closes every store and joins the thread, if there is one.
  StoreServer(StoreServer const&) = delete;
  StoreServer& operator=(StoreServer const&) = delete;
  StoreServer(StoreServer&&) = delete;
  StoreServer& operator=(StoreServer&&) = delete;

  /// Starts the thread, unless it runs; signals are blocked in it. Throws std::system_error when the system refuses
  /// one.
  void begin();
  /// Begins, binds and listens at once (so the port is known and reachable on return) and serves until `close`. The
  /// port of a closed store is taken over without being free in between. Returns the bound port. Errors: in_use naming
  /// the port, io; permission or io for StoreAccess::user on a host that cannot tell the owner of a connection. One
  /// thread at a time.
  Result<std::uint16_t> open(std::uint64_t generation, os::ListenAt const& where, StoreDoor door = {});
  /// Answers of other hosts about callers of a generation's store. From any thread, after `open`.
  void tell(std::uint64_t generation, std::vector<CallerNews> news);
  /// Ends a generation's store and all its connections. Its port stays ours, and callers find their connections closed,
  /// until kMostShut further stores have been closed or this server ends. Unknown numbers are ignored. From any thread,
  /// after `open`.
  void close(std::uint64_t generation);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cxxrun::store
