// The processes of one communicator of the double: shared memory with a slot for each, and meetings of all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <nccl.h>

namespace cxxrun::cuda_double {

constexpr std::size_t kSlotBytes = 256U << 10U;

/// How a wait for the others ended; 0 is well, ncclInProgress stands for "given up here".
using Outcome = ncclResult_t;

class World {
 public:
  /// Waits until all are there. Not well: `stop` was set meanwhile.
  static std::optional<World> join(ncclUniqueId const& id, int rank, int size, std::atomic<bool> const& stop);
  /// For who gives up while others have not come: leaves no name behind.
  static void forget(ncclUniqueId const& id);
  World(World const&) = delete;
  World& operator=(World const&) = delete;
  World(World&& other) noexcept;
  World& operator=(World&&) = delete;
  ~World();

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] std::byte* data(int rank) const;
  /// What each rank tells all others at a meeting.
  [[nodiscard]] std::atomic<std::uint64_t>& word(int rank, int which) const;

  /// Returns when all have come here as often as this rank.
  Outcome meet(std::atomic<bool> const& stop, bool deaths_seen);
  /// Waits until each of the others has said so, too, or its process has ended.
  void end();

 private:
  struct Slot;
  World(int rank, int size, void* memory);
  [[nodiscard]] Slot& slot(int rank) const;
  [[nodiscard]] bool all_there() const;
  [[nodiscard]] bool somebody_died() const;
  static std::size_t bytes_for(int size);

  int rank_;
  int size_;
  void* memory_;
};

/// What one rank does in a collective or in a group of sends and receives.
struct Operation {
  enum class Kind : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, exchange };
  struct Part {
    int peer;
    std::byte const* from;
    std::byte* to;
    std::size_t bytes;
  };
  Kind kind = Kind::exchange;
  void const* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclUint8;
  ncclRedOp_t op = ncclSum;
  int root = 0;
  std::vector<Part> sends;
  std::vector<Part> receives;
};

[[nodiscard]] std::size_t size_of(ncclDataType_t type);
/// Carries it out over the slots. ncclInvalidUsage: the ranks' calls so far were not the same; `history` is the hash of
/// them, this one included afterwards.
Outcome carry_out(World& world, Operation const& operation, std::uint64_t& history, std::atomic<bool> const& stop,
                  bool deaths_seen);

}  // namespace cxxrun::cuda_double
