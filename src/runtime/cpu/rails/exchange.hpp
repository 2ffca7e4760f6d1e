// Exchange: runs one call on a rail's links. It sends to all peers and receives from all at the same time, reduces what
// has arrived while the rest is still coming, and sends results on as they become available. Shell.
//
// A peer gets a header, then this rank's contribution to the peer's part, then results. Contributions wait in a ring
// per peer until the same block has come from all peers; then the block is reduced in the order of nodes, in one pass.
// Results are received directly into their place.
#pragma once

#include <algorithm>
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

}  // namespace cxxrun::host
