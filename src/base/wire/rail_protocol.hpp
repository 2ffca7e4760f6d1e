// What ranks of different nodes say to each other: greeting, call header, farewell. Pure.
//
// Two connections per pair: on `data` both greet, then every call is a header and as many bytes as that announces; on
// `control` both greet, then at most one farewell follows. A farewell needs a connection of its own because data may be
// in the middle of a gigabyte when the reason is known.
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

/// Both sides' first bytes; the answer has `from` and `to` the other way round. Fields never move: a later version
/// must be able to say that it is one.
struct RailGreeting {
  std::uint64_t magic = kRailMagic;
  std::uint32_t version = kRailVersion;
  RailChannel channel = RailChannel::data;
  std::int32_t from = 0;  ///< ranks
  std::int32_t to = 0;
  std::uint64_t generation = 0;
  std::uint64_t nonce = 0;
  std::uint32_t proves = 0;  ///< 1: this side proves who it is, and asks the same of the other (rail_proof.hpp); else 0
  TcpEnd caller{};           ///< who connected, and who was connected to, as this side sees them; unless it proves, 0
  TcpEnd called{};
  std::array<std::uint8_t, 32> fresh{};  ///< random on each connection; unless it proves, 0
  bool operator==(RailGreeting const&) const = default;
};
static_assert(sizeof(RailGreeting) == 112 && std::has_unique_object_representations_v<RailGreeting>);

/// In front of what one rank sends to another in one call.
struct RailHeader {
  std::uint64_t number = 0;  ///< of the call on this rail, from 1
  std::uint64_t bytes = 0;   ///< that follow
  comm::CallFields call;
};
static_assert(sizeof(RailHeader) == 40);

/// The farewell of a rank: why it goes.
struct Farewell {
  enum class What : std::uint8_t { left, peer_failure, failure };
  What what = What::left;
  PeerFailure::Why why = PeerFailure::Why::died;  ///< peer_failure: of whom, where and why
  int rank = 0;
  std::string host;
  Error error;  ///< failure: what was thrown
  bool operator==(Farewell const&) const = default;
};

/// No farewell is longer; long texts are cut.
inline constexpr std::size_t kMaxFarewell = 4096;

/// With its length in front.
[[nodiscard]] std::string encode_farewell(Farewell const& farewell);

/// The farewell at the beginning of `bytes`, once it is complete.
/// Errors: protocol.
[[nodiscard]] Result<std::optional<Farewell>> decode_farewell(std::string_view bytes);

}  // namespace cxxrun::wire
