// The ranks of a rail, sockets with the options that rails need, and Link: the two connections to the rank of this rail
// on another node, and the progress of the current call on them. Shell.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxxrun/failure.hpp"
#include "cxxrun/store.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/wire/rail_protocol.hpp"
#include "src/base/worker/rail_prover.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/common/waiting.hpp"

namespace cxxrun::host {

/// The rank at the other end.
struct RailPeer {
  int rank = 0;
  std::string host;
  StoreAddress address;  ///< where it listens; not used for this rank itself
  bool alone = true;     ///< it is the only rank of this communicator on its node
};

struct RailConfig {
  int node = 0;                 ///< index of this rank in `peers`
  std::vector<RailPeer> peers;  ///< by node, including this rank
  std::uint64_t generation = 0;
  std::uint64_t nonce = 0;  ///< identifies this communicator; the same on all ranks, so callers without it are rejected
  /// A host that answers nothing for this long is lost; at least 4 s.
  Millis silence = std::chrono::seconds(15);
  bool are_coming = false;  ///< a rank that does not come is a PeerFailure (timeout)
};

/// A listening socket for the ranks of other nodes.
struct RailListener {
  os::UniqueFd fd;
  StoreAddress address;
  std::unique_ptr<worker::RailProver> prover{};  ///< null: a peer that knows the nonce is trusted
};

/// Starts to connect to a literal address; poll(2) tells when it is done.
[[nodiscard]] Result<os::UniqueFd> begin_connect(StoreAddress const& address);

/// Sets options for data: no delay, and keepalive, so that firewalls between the hosts do not drop an idle connection.
void prepare_data(int fd);
/// The same, and makes the socket fail with ETIMEDOUT if the other host has not answered for `silence`. Only for
/// connections with little data: Linux also counts a peer that does not read as silent, and a rank may be busy for
/// minutes before it reads.
void prepare_control(int fd, Millis silence);

/// Opens a listening TCP socket at an ephemeral port of `host` (a literal address). Throws Failure.
[[nodiscard]] RailListener listen_for_rails(std::string const& host);

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
