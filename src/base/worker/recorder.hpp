// Recorder: writes a Communicator's collectives to the ControlPage, for the agent and for reports after a death.
// Shell: reads the clock.
//
// A collective costs two readings of the clock and a dozen stores; no lock, no allocation, no system call. Without a
// page it costs a comparison. Threads: one call at a time, as in a backend.
#pragma once

#include <cstdint>

#include "cxxrun/failure.hpp"
#include "src/base/core/call.hpp"
#include "src/base/core/time.hpp"
#include "src/base/worker/control_page.hpp"

namespace cxxrun::worker {

inline void note_alive(ControlPage& page) noexcept {
  page.alive.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
}

/// `completed`: the training steps done so far, in all generations together.
inline void note_step(ControlPage& page, std::uint64_t completed) noexcept {
  note_alive(page);
  auto const now = page.alive.load(std::memory_order_relaxed);
  if (page.first_step.load(std::memory_order_relaxed) == 0) {
    page.first_step.store(now, std::memory_order_relaxed);
    page.checkpointing.store(0, std::memory_order_relaxed);
  }
  page.last_step.store(now, std::memory_order_relaxed);
  page.step.store(completed, std::memory_order_relaxed);
}

/// A checkpoint that has just ended took `held` of the worker's time. It counts as progress, like a step.
inline void note_checkpoint(ControlPage& page, Clock::duration held) noexcept {
  note_alive(page);
  if (page.first_step.load(std::memory_order_relaxed) != 0) {
    page.last_step.store(page.alive.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  page.checkpointing.fetch_add(held.count(), std::memory_order_relaxed);
}

/// A checkpoint is complete, which holds the state at this instant.
inline void note_saved(ControlPage& page, TimePoint of) noexcept {
  page.saved.store(of.time_since_epoch().count(), std::memory_order_relaxed);
}

class Recorder {
 public:
  Recorder() = default;  ///< of a process without a page: records nothing
  /// `counts`: of the generation's first Communicator, whose collectives are in the page. Calls of another one only
  /// show that the process is alive.
  Recorder(ControlPage& page, std::uint64_t generation, bool counts) noexcept
      : page_(&page), counts_(counts), generation_(generation) {
    if (counts) {
      page.first_step.store(0, std::memory_order_relaxed);
      page.last_step.store(0, std::memory_order_relaxed);
      page.checkpointing.store(0, std::memory_order_relaxed);
      page.entered.store(0, std::memory_order_relaxed);
      page.done.store(0, std::memory_order_relaxed);
      page.elsewhere.store(0, std::memory_order_relaxed);
      page.inside.store(0, std::memory_order_relaxed);
      for (Operation& operation : page.operations) {
        operation.sequence.store(0, std::memory_order_relaxed);
      }
      page.generation.store(generation, std::memory_order_release);
    }
    note_alive(page);
  }

  void entered(comm::Call const& call) noexcept {
    if (page_ == nullptr) {
      return;
    }
    note_alive(*page_);
    if (!counts_) {
      return;
    }
    Operation& operation = page_->operations[++sequence_ % kOperations];
    // Release: a reader that sees one of the new words also sees that the old sequence is gone.
    operation.sequence.store(0, std::memory_order_relaxed);
    operation.entered.store(page_->alive.load(std::memory_order_relaxed), std::memory_order_release);
    operation.done.store(0, std::memory_order_release);
    operation.count.store(call.count, std::memory_order_release);
    operation.what.store(packed(call.kind, call.type, call.op), std::memory_order_release);
    operation.sequence.store(sequence_, std::memory_order_release);
    page_->entered.store(sequence_, std::memory_order_release);
  }

  /// The last call has been carried out. Not to be called for one that failed.
  void done() noexcept {
    done(sequence_);
    if (page_ == nullptr || !counts_) {
      return;
    }
    Operation const& operation = page_->operations[sequence_ % kOperations];
    auto const kind = operation.what.load(std::memory_order_relaxed) & 0xffU;
    if (kind != static_cast<std::uint32_t>(comm::Kind::broadcast)) {  // its root does not wait for the others
      page_->inside.fetch_add(
          operation.done.load(std::memory_order_relaxed) - operation.entered.load(std::memory_order_relaxed),
          std::memory_order_relaxed);
    }
  }
  /// That call and all before it have been carried out. From any thread.
  void done(std::uint64_t sequence) const noexcept {
    if (page_ == nullptr) {
      return;
    }
    note_alive(*page_);
    if (counts_) {
      page_->operations[sequence % kOperations].done.store(page_->alive.load(std::memory_order_relaxed),
                                                           std::memory_order_release);
      page_->done.store(sequence, std::memory_order_release);
    }
  }
  /// A call that is not counted begins to wait, or has ended. A call that fails never ends here: its process is
  /// unwinding, and is not the one that others wait for.
  void waits() const noexcept {
    if (page_ != nullptr && !counts_) {
      page_->elsewhere.fetch_add(1, std::memory_order_relaxed);
    }
  }
  void goes_on() const noexcept {
    if (page_ != nullptr && !counts_) {
      page_->elsewhere.fetch_sub(1, std::memory_order_relaxed);
    }
  }
  /// A call failed because of this peer. Only the first one is kept. From any thread.
  void lost(PeerFailure const& failure) const noexcept {
    if (page_ != nullptr && failure.rank() >= 0 && page_->lost_in.load(std::memory_order_relaxed) != generation_) {
      page_->lost.store(static_cast<std::uint64_t>(failure.why()) << 32U | static_cast<std::uint32_t>(failure.rank()),
                        std::memory_order_relaxed);
      page_->lost_in.store(generation_, std::memory_order_release);
    }
  }
  /// The number of the last call.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }

 private:
  ControlPage* page_ = nullptr;
  bool counts_ = false;
  std::uint64_t generation_ = 0;
  std::uint64_t sequence_ = 0;
};

}  // namespace cxxrun::worker
