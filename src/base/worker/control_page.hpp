// ControlPage: the memory that one worker and its agent share. Layout and meaning only; pure.
//
// The agent makes one for each worker that registers (agent_packets.hpp): a memfd that cannot shrink, so that neither
// side gets SIGBUS because of the other. It lives as long as the worker's process, across generations.
//
// Every word has one writer, and neither side trusts the other's words. The agent shows them to people and judges hangs
// by them; it never uses one as an offset or a size.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/core/call.hpp"
#include "src/base/worker/page_values.hpp"

namespace cxxrun::worker {

/// "cxxrun" and the layout's version. Change it when a word moves or changes its meaning, not when one is appended.
constexpr std::uint64_t kPageMagic = 0x6e75'7278'7863'1002;
/// How many of its last collectives a worker keeps in its page. They can be read after its death, too.
constexpr std::size_t kOperations = 64;

/// One collective, at place sequence % kOperations of the ring. The reader compares `sequence` before and after.
struct Operation {
  std::atomic<std::uint64_t> sequence{0};  ///< from 1 in each Communicator; 0 while it is being written
  std::atomic<std::int64_t> entered{0};    ///< CLOCK_BOOTTIME, nanoseconds
  std::atomic<std::int64_t> done{0};       ///< the same; 0: in progress
  std::atomic<std::uint64_t> count{0};     ///< elements
  std::atomic<std::uint32_t> what{0};      ///< packed(): kind, type, op
};

/// The words of a GroupCount.
struct GroupWords {
  std::atomic<std::uint64_t> id{0};  ///< 0: unused, or its other words are being written
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> size{0};
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): each writer's words have cache lines of their own
struct ControlPage {
  std::atomic<std::uint64_t> magic{0};

  // Written by the agent.
  /// A futex: increased and woken after any change of the words below.
  alignas(64) std::atomic<std::uint32_t> bell{0};
  /// Generations up to this one are over: their collectives throw PeerFailure (stopped), and a worker that survives
  /// waits for the next generation. 0: none.
  std::atomic<std::uint64_t> over{0};
  /// Increased when the job wants a checkpoint now, for example because its time limit is near.
  std::atomic<std::uint32_t> checkpoints{0};
  /// Not 0: no generation follows for this process. It is to save and to end.
  std::atomic<std::uint32_t> ends{0};

  // Written by the worker.
  alignas(64) std::atomic<std::uint64_t> generation{0};  ///< of its Communicator
  std::atomic<std::uint64_t> step{0};                    ///< training steps completed
  std::atomic<std::int64_t> alive{0};                    ///< CLOCK_BOOTTIME, nanoseconds: its last call of the runtime
  std::atomic<std::int64_t> first_step{0};               ///< the same: its first step of this generation; 0: none yet
  std::atomic<std::int64_t> last_step{0};                ///< the same: its last step, or a checkpoint that ended later
  /// Collectives of the generation's first Communicator, begun and done. entered == done: it is computing.
  std::atomic<std::uint64_t> entered{0};
  std::atomic<std::uint64_t> done{0};
  std::array<Operation, kOperations> operations{};
  /// Nanoseconds that it has spent in checkpoints: since its first step of this generation, or since its start if it
  /// has made no step.
  std::atomic<std::int64_t> checkpointing{0};
  /// The first peer that a Communicator of generation `lost_in` gave up: its rank, and why << 32 (PeerFailure::Why).
  std::atomic<std::uint64_t> lost{0};
  std::atomic<std::uint64_t> lost_in{0};  ///< written after `lost`; 0: none
  /// Calls of groups, and of Communicators other than the first one, that it waits in or that have failed. A worker
  /// without a Communicator (PyTorch) cannot count them: 1 when it may be waiting in one.
  std::atomic<std::int64_t> elsewhere{0};

  /// Written by the agent: the worker must stop waiting in this generation at once, because other ranks blame it.
  alignas(64) std::atomic<std::uint64_t> asked{0};
  /// Written by the worker: one of its threads has seen `asked`.
  alignas(64) std::atomic<std::uint64_t> heard{0};
  /// Written by the worker: a thread that waited in a call has given it up.
  std::atomic<std::uint64_t> answered{0};
  /// Written by a worker whose groups PyTorch counts: all groups but the default one, which `entered` counts.
  alignas(64) std::array<GroupWords, kGroups> groups{};
  /// 1: no collective of it is in progress, in any group. 0: not known.
  std::atomic<std::uint64_t> idle{0};

  // Written by the worker, for others to see how late it is (launcher/live/slow.hpp).
  /// Nanoseconds inside calls of the generation's first Communicator that end when all ranks have made them.
  std::atomic<std::int64_t> inside{0};
  /// The newest sample of DistributedDataParallel's log: the number of its step, written last, and nanoseconds of it.
  std::atomic<std::uint64_t> ddp_sample{0};
  std::atomic<std::int64_t> ddp_forward{0};
  std::atomic<std::int64_t> ddp_backward{0};
  std::atomic<std::int64_t> ddp_reducing{0};
  /// How often a worker whose groups PyTorch counts has looked how many collectives of the default group are begun, 0
  /// while the next two are being written; the sums of these numbers and of the instants, in milliseconds of
  /// CLOCK_BOOTTIME.
  std::atomic<std::uint64_t> looks{0};
  std::atomic<std::uint64_t> looked_begun{0};
  std::atomic<std::uint64_t> looked_at{0};
  /// Nanoseconds inside the iterators of PyTorch's DataLoader; 0: it is not used.
  std::atomic<std::uint64_t> fed{0};
  /// CLOCK_BOOTTIME, nanoseconds: the instant whose state its newest complete checkpoint holds; 0: it has saved none.
  std::atomic<std::int64_t> saved{0};
  /// How often PyTorch's first optimizer has stepped since the process began, and when last (CLOCK_BOOTTIME,
  /// nanoseconds; written first). Shown as the steps of a script that reports none.
  std::atomic<std::uint64_t> updates{0};
  std::atomic<std::int64_t> updated{0};
};
static_assert(sizeof(ControlPage) <= 4096);

/// Kind, type and op of a collective in one word.
[[nodiscard]] constexpr std::uint32_t packed(comm::Kind kind, DType type, ReduceOp op) {
  return static_cast<std::uint32_t>(kind) | static_cast<std::uint32_t>(type) << 8U |
         static_cast<std::uint32_t>(op) << 16U;
}

}  // namespace cxxrun::worker
