// Rails: this rank's TCP connections to the ranks with the same index on the other nodes, and the collectives among
// these. Every rank of the rail makes the same calls in the same order. Shell.
//
// Each message starts with a header (call number, call, bytes): a peer in another call is noticed and named, and its
// data is never added. When a call fails, fail() tells the peers why before the connections close, so that all
// survivors name the same rank. A peer that dies closes its connections (FIN or RST); a peer that is alive but late is
// named when the patience ends; a host without power is detected by keepalive (lost).
//
// Blocking; one thread at a time. Errors: PeerFailure, Failure (a peer in another call). After an error only fail() and
// the destructor may follow.
#pragma once

#include <algorithm>
#include <exception>
#include <poll.h>
#include <span>
#include <vector>

#include "src/runtime/cpu/rails/rail_link.hpp"

namespace cxxrun::host {

/// The data exchanged with one peer in a call.
struct Flow {
  std::span<std::byte const> contribution;  ///< sent to the peer, available from the start
  std::span<std::byte const> result;        ///< sent to the peer, as far as it is available
  std::size_t contributed = 0;              ///< bytes in memory that the peer contributes to this rank's part
  std::span<std::byte> place;               ///< where the peer's results are stored
};

/// One call. Sizes are bytes in memory, not on the wire.
struct Plan {
  comm::Call call;                 ///< the call that peers compare
  Wire wire = Wire::same;          ///< if not `same`, elements are f32 and sent in this format
  std::vector<Flow>* flows{};      ///< by node
  std::byte const* own = nullptr;  ///< this rank's contribution to its own part
  std::byte* reduced = nullptr;    ///< where the reduction of that part is stored
  std::size_t part = 0;            ///< size of that part
  bool widened = false;            ///< contributions are f32, and their sum has the call's 16-bit type
  bool round = false;              ///< the reduction is the `result` of all flows: round it as the receivers see it
  int relayed_from = -1;           ///< if not -1: the results to send are received from this node
  int distance = 0;                ///< number of nodes between this one and the source of the data
};

/// Runs one call on a rail's links. It sends to all peers and receives from all at the same time, reduces what has
/// arrived while the rest is still coming, and sends results on as they become available.
///
/// A peer gets a header, then this rank's contribution to the peer's part, then results. Contributions wait in a ring
/// per peer until the same block has come from all peers; then the block is reduced in the order of nodes, in one pass.
/// Results are received directly into their place.
class Exchange {
 public:
  Exchange(Links& links, int node, int rank, std::uint64_t generation);
  /// Blocks until everything has been received and handed to the kernel. Throws PeerFailure and Failure.
  void run(Plan const& plan, LocalPeers& local_peers, Patience const& patience);

 private:
  void begin();
  void begin_link(Link& link);
  [[nodiscard]] Flow const& flow(Link const& link) const {
    return (*plan_->flows)[static_cast<std::size_t>(link.node)];
  }
  [[nodiscard]] std::size_t on_wire(std::size_t bytes) const { return bytes / element_ * wire_element_; }
  [[nodiscard]] std::size_t total_out(Link const& link) const {
    return on_wire(flow(link).contribution.size() + flow(link).result.size());
  }
  [[nodiscard]] std::size_t total_in(Link const& link) const {
    return on_wire(flow(link).contributed + flow(link).place.size());
  }
  /// Size of the available result when `bytes` of the part are final.
  [[nodiscard]] std::size_t result_of(std::size_t bytes) const { return plan_->widened ? bytes / 2 : on_wire(bytes); }
  [[nodiscard]] std::size_t sendable(Link const& link) const;
  [[nodiscard]] bool received_all(Link const& link) const {
    return link.header_got == sizeof link.header_in && link.received == total_in(link);
  }
  [[nodiscard]] bool sent_all(Link const& link) const {
    return link.header_sent == sizeof link.header_out && link.sent == total_out(link);
  }
  [[nodiscard]] bool done() const {
    return reduced_ == plan_->part && std::all_of(links_.begin(), links_.end(), [&](Link const& link) {
             return link.node == node_ || (sent_all(link) && received_all(link));
           });
  }
  [[nodiscard]] bool can_send(Link const& link) const {
    return !link.broken && (link.header_sent < sizeof link.header_out || link.sent < sendable(link));
  }
  [[nodiscard]] bool can_receive(Link const& link) const;

  void pump();
  void grant();
  bool send_some(Link& link);
  std::span<std::byte const> next_to_send(Link& link, std::size_t limit);
  std::span<std::byte const> staged(Link& link, std::byte const* from, std::size_t count);
  bool receive_some(Link& link);
  void take_header(Link const& link) const;
  [[nodiscard]] std::span<std::byte> room(Link& link);
  void on_received(Link& link, std::size_t bytes);
  void reduce_ready();
  void reduce_block(std::size_t at, std::size_t size);
  void reduce_encoded(std::size_t at, std::size_t size);

  void wait();
  void check_ends() const;
  void check_patience();
  [[nodiscard]] Link const* slowest() const;

  Links& links_;
  int node_;
  int rank_;
  std::uint64_t generation_;
  std::uint64_t number_ = 0;

  Plan const* plan_ = nullptr;
  LocalPeers* local_peers_ = nullptr;
  Patience const* patience_ = nullptr;
  std::size_t element_ = 1;
  std::size_t wire_element_ = 1;
  std::size_t block_ = 1;  ///< bytes on the wire
  std::size_t turn_ = 0;
  std::size_t turns_ = 0;
  std::size_t reduced_ = 0;  ///< bytes in memory of this rank's part that are final
  std::size_t moved_ = 0;    ///< bytes sent and received
  std::size_t middle_ = 0;   ///< of these, half of the call
  bool past_middle_ = false;
  TimePoint now_{};
  TimePoint looked_{};
  int held_by_ = -1;
  std::vector<pollfd> watched_;
  std::vector<void const*> inputs_;
  Scratch encoded_;  ///< this rank's results in wire format
};

class Rails {
 public:
  /// Connects all pairs. `listener` listens at this rank's address. Throws Failure (timeout) that names an unreachable
  /// rank and why; PeerFailure for it if all `are_coming`; and failures of local peers.
  Rails(RailConfig config, RailListener listener, LocalPeers& local_peers, Patience const& patience);
  ~Rails();
  Rails(Rails const&) = delete;
  Rails& operator=(Rails const&) = delete;

  /// In place; the same bits on every node. `call` gives type, op, wire and scale, and is what peers compare. `data`
  /// and `count` (which may be less than call.count) are the part that this rail carries. `sums`, given on all nodes or
  /// on none: this node's contribution in f32, instead of the one in `data` (comm::sums_in_f32).
  void all_reduce(comm::Call const& call, std::byte* data, std::size_t count, Patience const& patience,
                  std::byte const* sums = nullptr);
  /// parts[n]: `count` elements for node n; f32 if `sums`. Their reduction for this node is stored in `out` (which may
  /// be parts[node] unless `sums`).
  void reduce_scatter(comm::Call const& call, std::span<std::byte const* const> parts, std::byte* out,
                      std::size_t count, Patience const& patience, bool sums = false);
  /// Sends sends[n] to node n and fills receives[n] from it. Sizes may differ and be 0, and both sides know them. The
  /// entries of this node itself are ignored. all_gather is this with the same bytes for all nodes.
  void exchange(comm::Call const& call, std::span<std::span<std::byte const> const> sends,
                std::span<std::span<std::byte> const> receives, Patience const& patience);
  void broadcast(comm::Call const& call, std::span<std::byte> data, int root_node, Patience const& patience);

  /// What the farewells received so far report, without removing them: the next call handles them. Not while a call is
  /// in progress.
  [[nodiscard]] Trouble trouble() noexcept;
  /// Throws what trouble() reports.
  void throw_trouble(Patience const& patience);
  /// The same, except for peers that have left: they may have finished.
  void throw_farewells(Patience const& patience);

  /// Tells the peers the failure of this rank's call, as far as their sockets accept it, and closes. Never throws.
  void fail(std::exception_ptr const& why) noexcept;

 private:
  [[nodiscard]] RailPeer const& me() const { return config_.peers[static_cast<std::size_t>(config_.node)]; }
  [[nodiscard]] int nodes() const { return static_cast<int>(links_.size()); }
  template <class So>
  void throw_first_end(So const& so, Patience const& patience);
  void begin(comm::Call const& call);
  void begin_reduction(comm::Call const& call) {
    begin(call);
    if (call.type == DType::f32 && call.op == ReduceOp::sum) {
      plan_.wire = call.wire;
    }
  }

  RailConfig config_;
  LocalPeers& local_peers_;
  Links links_;
  std::vector<Flow> flows_;
  Exchange exchange_;
  Plan plan_;
};

}  // namespace cxxrun::host
