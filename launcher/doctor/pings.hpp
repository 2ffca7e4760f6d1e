// One call to another node of a step, to see whether it is reachable and how its clock differs. Board (board.hpp)
// answers. Shell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/doctor/step.hpp"
#include "rendezvous/trust/key.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/local_address.hpp"

namespace cxxrun::launcher::doctor {

/// The request of a caller. The answer is wall_us() on the other node, in decimal digits.
inline constexpr char const* kAskClock = "clock";
/// The wall clock in µs, to compare clocks for people. Nothing is decided by it.
[[nodiscard]] std::int64_t wall_us();

/// Time limit of a name lookup: the first name server may be dead, and the next one answers after 5 s or more.
inline constexpr Millis kNaming{10'000};

/// Connects, without a spare port (os::begin_connect): a node that has no port left is to be seen. 0, or an error
/// number; without a socket `made` is empty.
[[nodiscard]] int connect_to(addrinfo const& address, os::UniqueFd& made, TimePoint deadline);

/// A node to be called by name, as workers do. The constructor starts the lookup on a thread.
class Callee {
 public:
  Callee(std::uint32_t index, std::string const& host, std::uint16_t port)
      : index_(index), name_(kNaming, host, port, SOCK_STREAM) {}
  /// Whether the lookup has ended.
  [[nodiscard]] bool ready() { return name_.ready(); }
  /// Connects and asks for the clock a few times, at most 3 s once the lookup has ended. Call it once. `key`: both ends
  /// authenticate by it; empty with --auth none.
  [[nodiscard]] Call call(std::optional<rendezvous::Key> const& key);

 private:
  std::uint32_t index_;
  os::LookUp name_;
};

}  // namespace cxxrun::launcher::doctor
