// What a store is opened with besides its port.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/store/admission.hpp"

namespace cxxrun::store {

/// Hears of connections that are refused, or closed for what they sent, and of a lack of descriptors; on the store's
/// thread.
using StoreWarn = std::function<void(std::string const& line)>;

/// Is given each socket at which a store is to listen, before anybody can be told of its port; on the store's thread.
using StoreKeep = std::function<void(int listener)>;

/// Of one store; who goes beyond them is closed by name, or waits.
struct StoreLimits {
  std::uint64_t held = 1ULL << 30U;      ///< keys, values, WAITs and requests that have come in part
  std::uint64_t unsent = 256ULL << 20U;  ///< replies that nobody has taken yet, and the one that crossed it
};

/// Who is let in to a store.
struct StoreDoor {
  StoreAccess access = StoreAccess::any;
  /// Asks the hosts of callers from elsewhere, and brings what they say to StoreServer::tell. On the store's thread;
  /// may be empty: there is nobody to ask.
  std::function<void(std::vector<CallerQuestion>)> ask;
};

}  // namespace cxxrun::store
