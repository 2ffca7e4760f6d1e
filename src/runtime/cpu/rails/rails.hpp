// Rails: this rank's TCP connections to the ranks with the same index on the other nodes, and the collectives among
// those. Every rank of the rail makes the same calls in the same order. Shell.
//
// Each message starts with a header (call number, what is called, bytes): a peer in another call is noticed, named
// and never added up. When a call fails, fail() tells the peers why before the connections close, so that every
// survivor names the same culprit. A peer that dies closes its connections (FIN or RST); one that is there but late
// is named when the patience ends; a host without power is noticed by keepalive (lost).
//
// Blocking; one thread at a time. Errors: PeerFailure, Failure (a peer in another call). After one, only fail() and
// the destructor may follow.
#pragma once

#include <exception>
#include <span>

#include "src/runtime/cpu/rails/exchange.hpp"

namespace cxxrun::host {

class Rails {
 public:
  /// Connects all pairs. `listener` listens at this rank's address. Throws Failure (timeout) naming who cannot be
  /// reached and why; PeerFailure for it where all `are_coming`, and through `mates`.
  Rails(RailConfig config, RailListener listener, Mates& mates, Patience const& patience);
  ~Rails();
  Rails(Rails const&) = delete;
  Rails& operator=(Rails const&) = delete;

  /// In place; same bits on every node. `call` gives type, op, wire, scale and is what peers compare; `data` and
  /// `count` (which may be less than call.count) are the part this rail carries. `sums`, of all nodes or of none: this
  /// node's contribution instead of what is in `data`, in f32 (comm::sums_in_f32).
  void all_reduce(comm::Call const& call, std::byte* data, std::size_t count, Patience const& patience,
                  std::byte const* sums = nullptr);
  /// parts[n]: `count` elements for node n, in f32 if they are sums. Their reduction for this node goes to `out`
  /// (which may be parts[node], of elements that are none).
  void reduce_scatter(comm::Call const& call, std::span<std::byte const* const> parts, std::byte* out,
                      std::size_t count, Patience const& patience, bool sums = false);
  /// Sends sends[n] to node n and fills receives[n] from it; sizes may differ and be 0, and both sides know them.
  /// The entries of this node itself are ignored. all_gather is this with the same bytes for everyone.
  void exchange(comm::Call const& call, std::span<std::span<std::byte const> const> sends,
                std::span<std::span<std::byte> const> receives, Patience const& patience);
  void broadcast(comm::Call const& call, std::span<std::byte> data, int root_node, Patience const& patience);

  /// What the peers' farewells say, if any has come. Leaves them to be heard by the next call; not while
  /// one is under way.
  [[nodiscard]] Trouble trouble() noexcept;
  /// Throws what trouble() is about.
  void face_trouble(Patience const& patience);
  /// The same, without peers that have left: they may have been done.
  void hear(Patience const& patience);

  /// Tells the peers what this rank's call failed with, as far as their sockets take it, and closes. Never throws.
  void fail(std::exception_ptr const& why) noexcept;

 private:
  [[nodiscard]] RailPeer const& me() const { return config_.peers[static_cast<std::size_t>(config_.node)]; }
  [[nodiscard]] int nodes() const { return static_cast<int>(links_.size()); }
  template <class So>
  void throw_end(So const& so, Patience const& patience);
  void begin(comm::Call const& call);
  void begin_reduction(comm::Call const& call) {
    begin(call);
    if (call.type == DType::f32 && call.op == ReduceOp::sum) {
      plan_.wire = call.wire;
    }
  }

  RailConfig config_;
  Mates& mates_;
  Links links_;
  std::vector<Flow> flows_;
  Exchange exchange_;
  Plan plan_;
};

}  // namespace cxxrun::host
