// Calls between the nodes of a step: how one goes. Who answers is Board (board.hpp). Shell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cxxrun/error.hpp"
#include "launcher/doctor/step_findings.hpp"
#include "rendezvous/trust/key.hpp"
#include "src/base/os/local_address.hpp"

namespace cxxrun::launcher::doctor {

/// What a caller says to who answers calls; the answer is wall_us() over there, in decimal digits.
inline constexpr char const* kAskClock = "clock";
/// For people and for the difference of two clocks; nothing is decided by it.
[[nodiscard]] std::int64_t wall_us();

/// How long a name is looked up: a name server may be dead, and the next one answer after 5 s or more.
inline constexpr Millis kNaming{10'000};

/// A node that is called by name, as workers do. The name is looked up on a thread, beside those of other nodes.
class Callee {
 public:
  Callee(std::uint32_t index, std::string const& host, std::uint16_t port)
      : index_(index), name_(kNaming, host, port, SOCK_STREAM) {}
  /// Whether nobody has to wait for its name any longer.
  [[nodiscard]] bool ready() { return name_.ready(); }
  /// Asks the clock over there some times: 3 s at most, once it is ready. To be called once. `key`: by which both ends
  /// prove themselves; nothing with --auth none.
  [[nodiscard]] Call call(std::optional<rendezvous::Key> const& key);

 private:
  std::uint32_t index_;
  os::LookUp name_;
};

}  // namespace cxxrun::launcher::doctor
