// Link: the two connections to the rank of this rail on another node, and the progress of the current call on them.
// Shell.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "cxxrun/failure.hpp"
#include "src/base/wire/rail_protocol.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/common/waiting.hpp"
#include "src/runtime/cpu/rails/rail_socket.hpp"

namespace cxxrun::host {

/// Memory that one owner fills anew in each call. Kept from call to call. It only grows, and growing discards the
/// contents.
class Scratch {
 public:
  std::byte* at_least(std::size_t bytes) {
    if (bytes > size_) {
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      size_ = bytes;
    }
    return memory_.get();
  }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

struct Link {
  int node = 0;
  int rank = 0;
  std::string host;
  bool alone = true;  ///< the only rank of its node
  os::UniqueFd data;
  os::UniqueFd control;

  // The end of the connections.
  std::string heard;                         ///< received on `control`: an incomplete farewell
  std::optional<PeerFailure::Why> ended{};   ///< `control` has ended
  std::optional<PeerFailure::Why> broken{};  ///< `data` has ended or failed
  TimePoint end_seen{};

  // Sending in this call; positions count bytes on the wire after the header.
  std::array<std::byte, sizeof(wire::RailHeader)> header_out{};
  std::size_t header_sent = 0;
  std::size_t sent = 0;
  std::size_t granted = 0;      ///< position up to which its turns have come
  std::size_t staged_from = 0;  ///< range of the encoded data in `staged`
  std::size_t staged_to = 0;
  bool full = false;  ///< the socket accepts nothing at present
  Scratch staged;

  // Receiving in this call.
  std::array<std::byte, sizeof(wire::RailHeader)> header_in{};
  std::size_t header_got = 0;
  std::size_t received = 0;
  TimePoint heard_at{};
  Scratch ring;    ///< contributions that wait for those of other peers
  Scratch undone;  ///< a block of results in wire format
};

using Links = std::vector<Link>;  ///< by node; this node's own entry has no connections

/// Connects the `links` (one per node, with names set). Throws PeerFailure, and Failure: timeout (who is missing and
/// why), usage (a peer of another version, or one that requires proofs that this rank cannot give); `links` then holds
/// the connections made so far.
void connect_rails(RailConfig const& config, RailListener listener, LocalPeers& local_peers, Patience const& patience,
                   Links& links);

/// Reads what has arrived on `control`; sets `ended` if the connection has ended. Throws the failure that a farewell
/// reports.
void read_farewell(Link& link, std::uint64_t generation, Patience const& patience);

/// The trouble reported on `control` so far, without removing it from the socket.
[[nodiscard]] Trouble peek_trouble(Link const& link) noexcept;

/// How much longer than its patience this rank waits for a peer, so that the rank closest to the late one is the first
/// to name it. `distance`: the plan's.
[[nodiscard]] Millis grace_for(Link const& link, Patience const& patience, int distance);

[[nodiscard]] PeerFailure failure_of(Link const& link, PeerFailure::Why why, std::uint64_t generation,
                                     Patience const& patience);

/// The meaning of a failed send to or receive from `rank`. Throws Failure if it is not about the peer (out of memory).
[[nodiscard]] PeerFailure::Why why_of(int error, int rank);

/// Sends a farewell to all peers and closes. Waits only a moment for sockets that accept nothing.
void send_farewell(Links& links, std::function<wire::Farewell()> const& farewell) noexcept;

}  // namespace cxxrun::host
