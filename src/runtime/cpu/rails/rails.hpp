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

#include <exception>
#include <span>

#include "src/runtime/cpu/rails/exchange.hpp"

namespace cxxrun::host {

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
