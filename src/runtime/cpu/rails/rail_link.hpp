// Link: the two connections to the rank of this rail on another node, and how far the call in progress has come on
// them. Shell.
#pragma once

#include <array>
#include <functional>
#include <optional>

#include "cxxrun/failure.hpp"
#include "src/base/wire/rail_protocol.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/common/mates.hpp"
#include "src/runtime/cpu/common/scratch.hpp"
#include "src/runtime/cpu/rails/rail_socket.hpp"

namespace cxxrun::host {

struct Link {
  int node = 0;
  int rank = 0;
  std::string host;
  bool alone = true;  ///< on its node
  os::UniqueFd data;
  os::UniqueFd control;

  // The end of the connections.
  std::string heard;                         ///< on `control`, an incomplete farewell
  std::optional<PeerFailure::Why> ended{};   ///< `control` has ended
  std::optional<PeerFailure::Why> broken{};  ///< `data` has ended or failed
  TimePoint end_seen{};

  // What this call sends; positions count bytes on the wire after the header.
  std::array<std::byte, sizeof(wire::RailHeader)> header_out{};
  std::size_t header_sent = 0;
  std::size_t sent = 0;
  std::size_t granted = 0;      ///< its turns have come up to here
  std::size_t staged_from = 0;  ///< what `staged` holds, encoded
  std::size_t staged_to = 0;
  bool full = false;  ///< the socket takes nothing more at present
  Scratch staged;

  // What this call receives.
  std::array<std::byte, sizeof(wire::RailHeader)> header_in{};
  std::size_t header_got = 0;
  std::size_t received = 0;
  TimePoint heard_at{};
  Scratch ring;    ///< contributions that wait for the other peers'
  Scratch undone;  ///< a block of encoded results
};

using Links = std::vector<Link>;  ///< by node; the entry of this node itself has no connections

/// Fills the connections of `links` (one per node, names already there). Throws Failure (timeout: who is missing and
/// why; usage: a peer of another version, or one that asks for proofs where this rank has none) and PeerFailure;
/// `links` then holds what was connected.
void connect_rails(RailConfig const& config, RailListener listener, Mates& mates, Patience const& patience,
                   Links& links);

/// Reads what has come on `control`: sets `ended` when it is over. Throws what a farewell tells.
void listen_to(Link& link, std::uint64_t generation, Patience const& patience);

/// What has come on `control` by now, left there to be read.
[[nodiscard]] Trouble peek_trouble(Link const& link) noexcept;

/// Of a peer for which this rank waits: how much longer than its patience, so that whoever is nearer to the culprit is
/// the first to name it. `distance`: the plan's.
[[nodiscard]] Millis grace_for(Link const& link, Patience const& patience, int distance);

[[nodiscard]] PeerFailure failure_of(Link const& link, PeerFailure::Why why, std::uint64_t generation,
                                     Patience const& patience);

/// What a failed send to or receive from `rank` says about it. Throws Failure for what is not about the peer (memory).
[[nodiscard]] PeerFailure::Why why_of(int error, int rank);

/// Tells all peers and closes; waits at most a moment for sockets that take nothing.
void say_farewell(Links& links, std::function<wire::Farewell()> const& farewell) noexcept;

}  // namespace cxxrun::host
