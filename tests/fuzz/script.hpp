// Script: bytes read as a play for a state machine. Every sequence of bytes is one, and it ends with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "rendezvous/protocol/messages.hpp"

namespace cxxrun::fuzz {

inline void require(bool holds, char const* what) {
  if (!holds) {
    std::fprintf(stderr, "fuzz: %s\n", what);
    std::abort();
  }
}

class Script {
 public:
  Script(std::uint8_t const* data, std::size_t size) : data_(data), size_(size) {}

  [[nodiscard]] bool over() const { return at_ >= size_; }
  /// 0 to limit - 1; 0 when the script is over.
  std::uint32_t below(std::uint32_t limit) { return over() ? 0 : data_[at_++] % limit; }
  bool flip() { return below(2) == 1; }
  /// A number near `around`, mostly itself.
  std::uint64_t near(std::uint64_t around) {
    switch (below(8)) {
      case 0: return around + 1;
      case 1: return around > 0 ? around - 1 : 0;
      case 2: return 0;
      case 3: return ~std::uint64_t{0} >> below(40);
      default: return around;
    }
  }

 private:
  std::uint8_t const* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

/// What the other end may know of the state, so that what it says has a chance to fit.
struct Hints {
  std::uint64_t number = 0;
  std::uint64_t decided = 0;
  std::uint32_t size = 3;
  rendezvous::Ballot ballot;
};

[[nodiscard]] rendezvous::NodeInfo some_node(Script& script);
[[nodiscard]] rendezvous::Decree some_decree(Script& script, Hints const& hints);
[[nodiscard]] rendezvous::WorkerExit some_exit(Script& script);
[[nodiscard]] rendezvous::Beat some_beat(Script& script, Hints const& hints);
[[nodiscard]] rendezvous::BeatAck some_beat_ack(Script& script, Hints const& hints);
/// Any message, written and read again as if it had come over a connection.
[[nodiscard]] rendezvous::ToCoordinator some_to_coordinator(Script& script, Hints const& hints);
[[nodiscard]] rendezvous::ToAgent some_to_agent(Script& script, Hints const& hints);

}  // namespace cxxrun::fuzz
