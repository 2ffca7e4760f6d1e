// The messages between ranks of different nodes: greeting, proof, call header, farewell. Pure.
//
// Each pair of ranks has two connections. On `data` both sides greet; then every call is a header and the bytes that it
// announces. On `control` both sides greet; then at most one farewell follows. A farewell needs its own connection
// because `data` may be in the middle of a gigabyte when a rank fails.
// Numbers are in the byte order of the hosts: the magic of a host with another order is not recognised.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "cxxrun/failure.hpp"
#include "src/base/core/call.hpp"
#include "src/base/core/tcp_ends.hpp"

namespace cxxrun::wire {

inline constexpr std::uint64_t kRailMagic = 0x6c69617278786301;
inline constexpr std::uint32_t kRailVersion = 2;

enum class RailChannel : std::uint32_t { data = 0, control = 1 };
inline constexpr int kRailChannels = 2;

/// The first bytes of either side; the answer has `from` and `to` swapped. Fields never move, so that a later version
/// can be told apart.
struct RailGreeting {
  std::uint64_t magic = kRailMagic;
  std::uint32_t version = kRailVersion;
  RailChannel channel = RailChannel::data;
  std::int32_t from = 0;  ///< ranks
  std::int32_t to = 0;
  std::uint64_t generation = 0;
  std::uint64_t nonce = 0;
  std::uint32_t proves = 0;  ///< 1: this side proves who it is and expects a proof (RailClaim). 0: the rest is 0, too
  TcpEnd caller{};           ///< the end that connected, as this side sees it
  TcpEnd called{};           ///< the end that was connected to, as this side sees it
  std::array<std::uint8_t, 32> fresh{};  ///< a nonce: random on each connection
  bool operator==(RailGreeting const&) const = default;
};
static_assert(sizeof(RailGreeting) == 112 && std::has_unique_object_representations_v<RailGreeting>);

// Proofs. Where the agents of a job share a key, both ends of each connection prove who they are, the caller first.
// libcxxrun has no cryptography: a rank asks its agent, which makes this side's proof and checks the other side's
// (docs/design/trust.md).

/// Length of a proof. It follows the greetings on the connection.
inline constexpr std::size_t kRailProof = 16;

enum class RailSide : std::uint8_t { caller, called };

/// A rank's question to its agent about one connection.
struct RailClaim {
  RailSide side = RailSide::caller;  ///< of the rank that asks
  RailGreeting call;                 ///< the caller's greeting
  RailGreeting answer;               ///< the greeting of the side that was called
  std::string theirs;                ///< the other side's proof; "": it has not come yet
  bool operator==(RailClaim const&) const = default;
};

/// The agent's answer.
struct RailVerdict {
  enum class What : std::uint8_t {
    right,    ///< send `own`, unless it has been sent already
    wrong,    ///< `theirs` is not a valid proof
    relayed,  ///< a relay between the two passes the connection on
  };
  What what = What::wrong;
  std::string own;  ///< this side's proof; else ""
  bool operator==(RailVerdict const&) const = default;
};

/// How the relay was noticed, and what to do when it is there on purpose.
[[nodiscard]] std::string relay_text(RailGreeting const& call, RailGreeting const& answer);

/// Precedes the bytes that one rank sends to another in one call.
struct RailHeader {
  std::uint64_t number = 0;  ///< of the call on this rail, from 1
  std::uint64_t bytes = 0;   ///< how many follow
  comm::CallFields call;
};
static_assert(sizeof(RailHeader) == 40);

/// Why a rank leaves.
struct Farewell {
  enum class What : std::uint8_t { left, peer_failure, failure };
  What what = What::left;
  PeerFailure::Why why = PeerFailure::Why::died;  ///< peer_failure: why `rank` on `host` failed
  int rank = 0;
  std::string host;
  Error error;  ///< failure: what was thrown
  bool operator==(Farewell const&) const = default;
};

/// Longest farewell; longer texts are cut.
inline constexpr std::size_t kMaxFarewell = 4096;

/// Begins with its length.
[[nodiscard]] std::string encode_farewell(Farewell const& farewell);

/// The farewell at the beginning of `bytes`, or nothing until it is complete. Errors: protocol.
[[nodiscard]] Result<std::optional<Farewell>> decode_farewell(std::string_view bytes);

}  // namespace cxxrun::wire
