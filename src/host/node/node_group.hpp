// NodeGroup: the ranks of one node, meeting in the memory they share. Shell.
//
// Every rank makes the same sequence of publish() and meet(). Each returns when all mates have made it as well; then
// everything they wrote before is visible. Whoever waits spins for a while if it has a CPU of its own, yields, then
// sleeps on the node's bell; the last to arrive rings it, and only if somebody sleeps.
//
// What ends a wait early is the node's alarm, raised by the guard of a mate that died (Lifeline), by a mate whose call
// failed or by the first whose patience ends. Every rank throws what the alarm says, then and in every later call.
//
// Threads: one at a time; the guard's thread is this object's own.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/host/common/backend.hpp"
#include "src/host/common/mates.hpp"
#include "src/host/node/alarm.hpp"
#include "src/host/node/lifeline.hpp"
#include "src/host/node/node_layout.hpp"
#include "src/host/node/segment_map.hpp"

namespace cxxrun::host {

struct NodeConfig {
  std::vector<int> ranks;          ///< by index within the node
  std::vector<std::string> hosts;  ///< by rank, of all nodes
  int index = 0;
  std::uint64_t generation = 0;
  std::uint64_t nonce = 0;
  bool enough_cpus = true;
  /// How much longer to wait for a mate that is itself held up by another node: who is nearer to the cause names it.
  std::chrono::milliseconds grace{};
  /// Asked by whoever waits, every millisecond: when the launcher has ended the generation nobody need come any more.
  /// For the time in which there is no backend to abort() yet. Empty: never.
  std::function<bool()> is_over = {};
};

class NodeGroup : public Mates {
 public:
  /// Blocks until all ranks of the node are there. A node of one rank needs no segment.
  NodeGroup(NodeConfig config, os::UniqueFd segment, Patience const& patience);
  ~NodeGroup() override;
  NodeGroup(NodeGroup const&) = delete;
  NodeGroup& operator=(NodeGroup const&) = delete;

  [[nodiscard]] int size() const { return layout_.size; }
  [[nodiscard]] int index() const { return config_.index; }
  [[nodiscard]] int rank(int index) const { return config_.ranks[static_cast<std::size_t>(index)]; }
  [[nodiscard]] std::string name_of(int index) const;  ///< "rank 3 on node2"
  [[nodiscard]] SegmentMap& segment() { return *segment_; }

  /// Where this rank's data of the next publication goes: kInlineBytes.
  [[nodiscard]] std::byte* outbox();
  /// Shows `call` and the outbox to the mates, and meets.
  void publish(Published const& call, Patience const& patience);
  /// What a mate has published last; valid until this rank's publication after the next.
  [[nodiscard]] Published const& published(int index) const;
  [[nodiscard]] std::byte const* inbox(int index) const;
  [[nodiscard]] std::byte* staging(int index, std::size_t piece) const;

  void meet(Patience const& patience);

  /// Shows the mates that this rank makes no more calls; the memory stays mapped. The destructor does it too.
  void leave() noexcept;

  void check(Patience const& patience) override;
  void held_up_by(int rank) override;
  [[nodiscard]] Clock::duration stopped() const override { return stopped_; }

  /// Raises the alarm, unless it is.
  void raise(std::exception_ptr const& why) noexcept;
  void raise(FailureFacts const& facts) noexcept;
  /// That a mate has published what no rank of this version publishes.
  [[nodiscard]] FailureFacts nonsense(int index) const;
  [[nodiscard]] bool failed() const { return is_raised(header().alarm); }
  /// What is known of the mates without meeting them. Any thread.
  [[nodiscard]] Trouble trouble() const;
  /// Throws what the alarm says.
  [[noreturn]] void throw_alarm(Patience const& patience) const;

 private:
  [[nodiscard]] Header& header() const { return *header_; }
  [[nodiscard]] Slot& slot(int index) const { return *slots_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] FailureFacts peer_failure(PeerFailure::Why why, int rank) const;
  void map_segment();
  void take_place();
  [[nodiscard]] bool arrived(int index) const;
  [[nodiscard]] bool all_arrived() const;
  [[nodiscard]] bool came_soon() const;
  [[nodiscard]] bool anyone_died() const;
  [[nodiscard]] bool is_over() const { return config_.is_over && config_.is_over(); }
  void look_at_clock(Patience const& patience);
  void sleep_until_rung(Patience const& patience);
  void look_around(Patience const& patience);
  void give_up(Patience const& patience, bool held_up_too);
  void ring() const noexcept;

  NodeConfig config_;
  NodeLayout layout_;
  std::unique_ptr<SegmentMap> segment_;
  Header* header_ = nullptr;
  std::vector<Slot*> slots_;
  std::vector<std::byte*> staging_;
  std::uint32_t step_ = 0;
  std::uint32_t publications_ = 0;
  TimePoint began_{};  ///< of the call that the next two are about
  TimePoint looked_{};
  Clock::duration stopped_{};
  std::unique_ptr<Slot> alone_;  ///< of a node of one rank, with its header
  std::unique_ptr<Header> alone_header_;
  std::unique_ptr<Lifeline> lifeline_;
};

}  // namespace cxxrun::host
