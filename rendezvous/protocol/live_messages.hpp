// Messages of the live view, as values; encode() and decode() are those of messages.hpp. docs/use/live.md.
//
// They pass on the same connection as membership's, and nothing hangs on them: no lease, vote or state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

/// How far the workers of a node are. At the pace that the coordinator sets; nothing hangs on it.
struct NodePulse {
  std::uint64_t number = 0;     ///< of the generation that its workers are of; 0: none run
  std::uint32_t rank_base = 0;  ///< of the first worker
  /// So many numbers for each worker, by local rank; what they mean: launcher/live/figures.hpp. Who knows fewer leaves
  /// the last ones out.
  std::uint32_t width = 1;
  std::vector<std::int64_t> figures;  ///< at most kMaxFigures; a last part of a worker counts for nothing
  bool operator==(NodePulse const&) const = default;
};
inline constexpr std::size_t kMaxFigures = 65536;
/// A question: of a program on the agent's node to the coordinator, or of the coordinator to an agent.
struct Ask {
  std::uint64_t id = 0;  ///< the sender's; the answers have it
  std::string text;      ///< launcher/live/question.hpp; at most kMaxAsk bytes
  bool operator==(Ask const&) const = default;
};
inline constexpr std::size_t kMaxAsk = 512;
/// A part of the answer: lines of JSON, which nobody on the way reads.
struct Told {
  std::uint64_t id = 0;
  std::string text;   ///< at most kMaxTold bytes
  bool more = false;  ///< another part follows
  bool operator==(Told const&) const = default;
};
/// In a frame each byte may become six: a control character is \u001b.
inline constexpr std::size_t kMaxTold = std::size_t{128} << 10U;
/// To an agent that sends pulses: another pace.
struct Pace {
  Millis every{5000};
  bool operator==(Pace const&) const = default;
};
using LiveUp = std::variant<NodePulse, Ask, Told>;
using LiveDown = std::variant<Pace, Ask, Told>;

/// What comes on the connection between an agent and its coordinator, after the handshake.
using HeardFromAgent = std::variant<FromAgent, LiveUp>;
using HeardFromCoordinator = std::variant<FromCoordinator, LiveDown>;

}  // namespace cxxrun::rendezvous
