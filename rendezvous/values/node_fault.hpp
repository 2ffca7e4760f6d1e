// NodeFault: a failure that was a node's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cxxrun::rendezvous {

/// From this many on a node is set aside, or is to be left out the next time.
inline constexpr std::size_t kFaultsEnough = 2;
/// What a decree has room for.
inline constexpr std::size_t kFaultsOfDecree = 8;

struct NodeFault {
  std::string host;
  std::string what;        ///< "rank 3: signal 7 (SIGBUS)"
  std::uint64_t look = 0;  ///< equal for failures that look the same; 0: looks like no other
  std::string key{};       ///< of the node in this run; "" = of an earlier run, or any on that host
  bool operator==(NodeFault const&) const = default;
};

}  // namespace cxxrun::rendezvous
