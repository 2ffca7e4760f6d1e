// ControlPage: the memory that one worker and its agent share. Layout and meaning only; pure.
//
// The agent makes one for each worker that registers (agent_packets.hpp): a memfd that cannot shrink, so that neither
// side gets SIGBUS because of the other. It lives as long as the worker's process, over generations.
//
// Every word has one writer. Nobody trusts the other side's words: the agent uses them to tell people what it sees and
// to judge hangs, never as an offset or a size.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/core/call.hpp"
#include "src/base/worker/group_count.hpp"

namespace cxxrun::worker {

/// "cxxrun" and the layout's version: change it when a word moves or changes its meaning, not for one that is appended.
constexpr std::uint64_t kPageMagic = 0x6e75'7278'7863'1002;
/// How many of its last collectives a worker leaves for whoever looks, also after its death.
constexpr std::size_t kOperations = 64;

/// One collective. Its place in the ring is sequence % kOperations; whoever reads looks at `sequence` before and after.
struct Operation {
  std::atomic<std::uint64_t> sequence{0};  ///< from 1 in each Communicator; 0 while it is being written
  std::atomic<std::int64_t> entered{0};    ///< CLOCK_BOOTTIME, nanoseconds
  std::atomic<std::int64_t> done{0};       ///< the same; 0: under way
  std::atomic<std::uint64_t> count{0};     ///< elements
  std::atomic<std::uint32_t> what{0};      ///< packed(): kind, type, op
};

/// The words of a GroupCount.
struct GroupWords {
  std::atomic<std::uint64_t> id{0};  ///< 0: not in use, or its other words are being written
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> size{0};
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): cache lines of their own
struct ControlPage {
  std::atomic<std::uint64_t> magic{0};

  // Written by the agent.
  /// Rung (futex) after any change of the words below.
  alignas(64) std::atomic<std::uint32_t> bell{0};
  /// Generations up to this one are over: their collectives throw PeerFailure (stopped), and a worker that survives
  /// waits for the next one. 0: none.
  std::atomic<std::uint64_t> over{0};
  /// Grows whenever a checkpoint is wanted now, for example before the job's time is up.
  std::atomic<std::uint32_t> checkpoints{0};
  /// The job ends: nobody need wait for another generation.
  std::atomic<std::uint32_t> ends{0};

  // Written by the worker.
  alignas(64) std::atomic<std::uint64_t> generation{0};  ///< of its Communicator
  std::atomic<std::uint64_t> step{0};                    ///< training steps that it has completed
  std::atomic<std::int64_t> alive{0};                    ///< CLOCK_BOOTTIME, nanoseconds: its last call of the runtime
  std::atomic<std::int64_t> first_step{0};               ///< the same: its first step of this generation; 0: none yet
  std::atomic<std::int64_t> last_step{0};                ///< and the newest, or the end of a checkpoint after it
  /// Of the generation's first Communicator: collectives begun, and done. entered == done: it computes.
  std::atomic<std::uint64_t> entered{0};
  std::atomic<std::uint64_t> done{0};
  std::array<Operation, kOperations> operations{};
  /// Nanoseconds for which checkpoints have held it up: since its first step of this generation, else since its start.
  std::atomic<std::int64_t> checkpointing{0};
  /// The first peer that a Communicator of generation `lost_in` gave up: its rank, and why << 32 (PeerFailure::Why).
  std::atomic<std::uint64_t> lost{0};
  std::atomic<std::uint64_t> lost_in{0};  ///< written after it; 0: none
  /// Calls of groups, and of Communicators other than the first one, that it waits in, or that have failed. A worker
  /// without a Communicator, which cannot tell (PyTorch): 1 where it may be waiting in one.
  std::atomic<std::int64_t> elsewhere{0};

  /// Written by the agent: the generation whose waits are to be given up at once, because others have named this
  /// worker.
  alignas(64) std::atomic<std::uint64_t> asked{0};
  /// By the worker: a thread of it has seen that.
  alignas(64) std::atomic<std::uint64_t> heard{0};
  /// By the worker: one that waits in a call gives it up.
  std::atomic<std::uint64_t> answered{0};
  /// By a worker whose groups PyTorch counts: all of them but the default one, which `entered` is of.
  alignas(64) std::array<GroupWords, kGroups> groups{};
  /// 1: none of its collectives is under way, in any group. 0: that is not known.
  std::atomic<std::uint64_t> idle{0};
};
static_assert(sizeof(ControlPage) <= 4096);

/// What was called, in one word.
[[nodiscard]] constexpr std::uint32_t packed(comm::Kind kind, DType type, ReduceOp op) {
  return static_cast<std::uint32_t>(kind) | static_cast<std::uint32_t>(type) << 8U |
         static_cast<std::uint32_t>(op) << 16U;
}

}  // namespace cxxrun::worker
