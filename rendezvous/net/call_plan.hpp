// CallPlan: where an agent finds a coordinator, and as whom it calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

class KeyRing;

/// Where and as whom to call.
struct CallPlan {
  std::vector<std::string> addresses;  ///< names or literals, as a rule of one host
  std::vector<std::uint16_t> ports;    ///< tried in order, again and again until `patience` is over
  std::string coordinator;             ///< only the one of this nonce is meant; "" = whoever has the run
  std::string run_id;
  std::string step;  ///< the other name of the run (run_table.hpp), asked for where `run_id` is not known; "" = none
  Hello::Asks asks = Hello::Asks::meet;  ///< follow: nothing is sent behind the greeting, FollowerInfo is the owner's
  NodeInfo node;                         ///< node.incarnation is the nonce of the handshake
  std::optional<Terms> terms;
  Millis patience{600'000};
  /// Each address and port is tried once: `failed` comes at once when nobody listens, and after `patience` without an
  /// answer. For successors, of whom there are others.
  bool once = false;
  std::string local_addr;         ///< --local-addr
  std::shared_ptr<KeyRing> keys;  ///< how both ends prove themselves; none: --auth none
};

}  // namespace cxxrun::rendezvous
