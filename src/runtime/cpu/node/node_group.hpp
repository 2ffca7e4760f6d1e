// NodeGroup: the ranks of one node, meeting in the memory they share. Shell.
//
// Every rank makes the same sequence of publish() and meet(). Each returns when all local peers have made it as well;
// then everything they wrote before is visible. A waiting rank first spins if it has a CPU of its own, otherwise
// yields, then sleeps on the node's bell; the last rank to arrive rings it, but only if somebody sleeps.
//
// The node's alarm ends a wait early. It is raised by the guard of a local peer that died (Lifeline), by a local peer
// whose call failed, or by the first rank whose patience ends. Every rank throws the alarm's failure, then and in all
// later calls.
//
// Threads: one at a time; the guard's thread belongs to this object.
#pragma once

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/core/text.hpp"
#include "src/base/worker/futex.hpp"
#include "src/base/worker/segment.hpp"
#include "src/runtime/comm/node_map.hpp"
#include "src/runtime/cpu/common/backend.hpp"
#include "src/runtime/cpu/common/waiting.hpp"
#include "src/runtime/cpu/node/alarm.hpp"

namespace cxxrun::host {

/// The parameters of a host backend.
struct HostConfig {
  comm::NodeMap map;
  std::vector<std::string> hosts;  ///< by rank, for messages
  std::vector<int> names;          ///< by rank: its number in messages, that is, in the world; empty: the same
  std::uint64_t generation = 0;
  std::uint64_t nonce = 0;  ///< identifies this communicator; the same on all ranks
  bool enough_cpus = true;  ///< this node has a CPU per rank, so waiting may spin
  Millis op_timeout{};
  std::vector<StoreAddress> addresses;  ///< by rank; empty if all share one node
  /// Polled every millisecond by waits: whether the launcher has ended the generation, so that nobody will come. For
  /// the time before there is a backend to abort(). Empty: never.
  std::function<bool()> is_over = {};
  /// Polled together with it until all have met; throws if others will not come. May be empty.
  std::function<void()> look = {};
  std::shared_ptr<EarlyGiveUp> early_give_up =
      std::make_shared<EarlyGiveUp>();  ///< for all waits, also before there is a backend
  /// All ranks have just promised in a call to come: a rank that does not is a PeerFailure (timeout).
  bool are_coming = false;

  /// Whether waiting is in vain, according to is_over() and look(); throws what look() throws.
  [[nodiscard]] bool is_in_vain() const {
    if (look) {
      look();
    }
    return is_over && is_over();
  }
  [[nodiscard]] int name_of(int rank) const { return names.empty() ? rank : names[static_cast<std::size_t>(rank)]; }
  /// The rank with that number in messages, or -1.
  [[nodiscard]] int rank_named(int name) const {
    int rank = static_cast<int>(hosts.size()) - 1;
    while (rank >= 0 && name_of(rank) != name) {
      --rank;
    }
    return rank;
  }

  /// How much longer a rail waits than the ranks of a node wait for each other: a stuck rank is named by its own node.
  [[nodiscard]] Millis grace() const {
    return map.node_count() == 1 ? Millis(0) : std::min<Millis>(op_timeout / 8, std::chrono::seconds(1));
  }
};

/// Shows the local peers of a process that it has died, within microseconds and for any cause.
///
/// A thread of this process owns a robust futex in memory shared with the local peers. When the process ends (SIGKILL,
/// exit, exec), the kernel marks the word and wakes a sleeper before it frees the process's memory, which takes 80 ms
/// per GiB; sockets and pidfds report later. The futex is raw and not a pthread mutex, because the processes may have
/// different C libraries. The thread sleeps on the word of the process that it guards: the ranks guard each other in a
/// circle.
class Lifeline {
 public:
  /// Takes ownership of `mine`; returns when a death of this process would be seen.
  explicit Lifeline(worker::FutexWord& mine);
  /// Gives the word back: afterwards it shows neither life nor death.
  ~Lifeline();
  Lifeline(Lifeline const&) = delete;
  Lifeline& operator=(Lifeline const&) = delete;

  /// Calls `on_death` when the owner of `other` has died: at most once, on the thread of this object. Call once.
  void guard(worker::FutexWord& other, std::function<void()> on_death);

  [[nodiscard]] static bool died(worker::FutexWord const& word) {
    return (word.load(std::memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
  }

 private:
  void own();
  void watch();
  void live();

  worker::FutexWord& mine_;
  robust_list_head head_{};
  robust_list entry_{};
  std::atomic<worker::FutexWord*> guarded_{nullptr};
  std::function<void()> on_death_;
  worker::FutexWord owned_{0};
  worker::FutexWord stop_{0};
  worker::FutexWord ended_{0};
  std::thread thread_;
};

class NodeGroup final : public LocalPeers {
 public:
  /// Blocks until all ranks of the node are there. A node of one rank needs no segment. `config` must outlive this
  /// object.
  NodeGroup(HostConfig const& config, os::UniqueFd segment, Patience const& patience);
  ~NodeGroup() override { leave(); }
  NodeGroup(NodeGroup const&) = delete;
  NodeGroup& operator=(NodeGroup const&) = delete;

  [[nodiscard]] int size() const { return layout_.size; }
  [[nodiscard]] int index() const { return config_.map.index; }
  [[nodiscard]] int rank(int index) const { return config_.map.partner(config_.map.node, index); }
  [[nodiscard]] int number_of(int index) const { return config_.name_of(rank(index)); }  ///< for messages
  [[nodiscard]] std::string name_of(int index) const {                                   ///< "rank 3 on node2"
    return rank_name(number_of(index), config_.hosts[static_cast<std::size_t>(rank(index))]);
  }
  [[nodiscard]] worker::SegmentMap& segment() { return *segment_; }

  /// Where this rank puts the data of its next publication: kInlineBytes.
  [[nodiscard]] std::byte* outbox() { return slot(index()).publications[(publications_ + 1) % 2].data.data(); }
  /// Shows `call` and the outbox to the local peers, and meets.
  void publish(Published const& call, Patience const& patience) {
    ++publications_;
    slot(index()).publications[publications_ % 2].call = call;
    meet(patience);
  }
  /// What a local peer published last; valid until this rank's publication after the next.
  [[nodiscard]] Published const& published(int index) const { return slot(index).publications[publications_ % 2].call; }
  [[nodiscard]] std::byte const* inbox(int index) const {
    return slot(index).publications[publications_ % 2].data.data();
  }
  [[nodiscard]] std::byte* staging(int index, std::size_t piece) const {
    return staging_[static_cast<std::size_t>(index) * kPieces + piece];
  }

  void meet(Patience const& patience);

  /// Shows the local peers that this rank makes no more calls. The memory stays mapped. The destructor does it too.
  void leave() noexcept;

  void check(Patience const& patience) override;
  void held_up_by(int rank) override { slot(index()).held_up_by.store(rank); }
  [[nodiscard]] bool gives_up_early(Patience const& patience) override;
  [[nodiscard]] EarlyGiveUp& early_give_up() { return *config_.early_give_up; }
  /// `check` is called by a wait whose time is over, before it names anybody; it throws what other nodes have reported.
  void set_farewell_check(std::function<void(Patience const&)> check) { farewell_check_ = std::move(check); }
  [[nodiscard]] Clock::duration stopped() const override { return stopped_; }

  /// Raises the alarm, unless it is raised.
  void raise(std::exception_ptr const& why) noexcept { raise(facts_of(why, name_of(index()))); }
  void raise(FailureFacts const& facts) noexcept;
  /// The failure for a local peer that has published something that no rank of this version publishes.
  [[nodiscard]] FailureFacts bad_publication(int index) const {
    return facts_of(fail(Errc::protocol, name_of(index) + " published a buffer outside the memory shared with it"));
  }
  [[nodiscard]] bool failed() const { return header().alarm.state.load(std::memory_order_acquire) == Alarm::kRaised; }
  /// What is known of the local peers without meeting them. Any thread.
  [[nodiscard]] Trouble trouble() const;
  /// Throws the failure in the alarm.
  [[noreturn]] void throw_alarm(Patience const& patience) const {
    throw_failure(read_alarm(header().alarm), config_.generation, patience.began);
  }

 private:
  [[nodiscard]] Header& header() const { return *header_; }
  [[nodiscard]] Slot& slot(int index) const { return *slots_[static_cast<std::size_t>(index)]; }
  [[nodiscard]] FailureFacts peer_failure(PeerFailure::Why why, int rank) const {
    return {true, why, config_.name_of(rank), config_.hosts[static_cast<std::size_t>(rank)], {}};
  }
  void map_segment();
  void take_place();
  [[nodiscard]] bool arrived(int index) const {
    return static_cast<std::int32_t>(slot(index).arrived.load() - step_) >= 0;
  }
  [[nodiscard]] bool all_arrived() const;
  [[nodiscard]] bool wait_briefly() const;
  /// The index of the first local peer that has died, or -1.
  [[nodiscard]] int dead_mate() const;
  [[nodiscard]] bool is_over() const { return config_.is_in_vain(); }
  void look_at_clock(Patience const& patience);
  void sleep_until_rung(Patience const& patience);
  void look_around(Patience const& patience);
  void give_up(Patience const& patience, bool held_up_too);
  void ring() const noexcept {
    header().bell.fetch_add(1);
    if (header().sleepers.load() != 0) {
      worker::futex_wake_all(header().bell);
    }
  }

  HostConfig const& config_;
  NodeLayout layout_;
  std::unique_ptr<worker::SegmentMap> segment_;
  Header* header_ = nullptr;
  std::vector<Slot*> slots_;
  std::vector<std::byte*> staging_;
  std::uint32_t step_ = 0;
  std::uint32_t publications_ = 0;
  TimePoint began_{};  ///< start of the call that the next two describe
  TimePoint looked_{};
  Clock::duration stopped_{};
  std::function<void(Patience const&)> farewell_check_;
  std::unique_ptr<Slot> alone_;  ///< for a node of one rank, with its header
  std::unique_ptr<Header> alone_header_;
  std::unique_ptr<Lifeline> lifeline_;
};

}  // namespace cxxrun::host
