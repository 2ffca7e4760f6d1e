// Communicator: the collectives of the workers of one generation.
//
//   auto comm = cxxrun::Communicator::init();          // under cxxrun, torchrun, srun with the variables set, or alone
//   auto arena = comm.arena(64 << 20);
//   auto values = arena.allocate<float>(1000);
//   comm.all_reduce(values);                           // sum over all ranks, in place, without a copy
//
// Order: every rank makes the same calls in the same order, with the same counts, types and operations. If ranks
// differ, all of them get a Failure that names the rank that differs, never a wrong sum. Results have the same bits on
// every rank, and from run to run as long as the placement of ranks on nodes is the same.
//
// Buffers: `count` is in elements. `in` and `out` may be the same buffer; otherwise they must not overlap. Pointers
// need the alignment of their type. The buffers belong to the caller. All buffers of one call are host memory, or with
// NCCL all are device memory, on every rank alike; arena() then returns device memory. Ranks of a node share memory,
// nodes use TCP. Buffers from arena() are used in place; others are copied through shared memory piece by piece. With
// NCCL a blocking call on device memory starts after the work on the default stream; docs/design/nccl_backend.md says
// what NCCL compares.
//
// Blocking: every call blocks until it is done on this rank, for at most op_timeout after the earlier calls are done.
// With several nodes it may take about 2 s longer, in which the nodes agree whose failure it is.
//
// Errors: PeerFailure when a peer died, left or is late; Failure for a problem that a person has to fix. After either
// one the Communicator is unusable (failure.hpp). A call that no rank may make (root outside the world, null buffers)
// throws Failure on the rank that made it, and the others get PeerFailure (left).
//
// Threads: one thread at a time. A call begun with start_…() runs on a thread of the Communicator, in the order in
// which calls were begun; later blocking calls run after it. With NCCL, calls on host memory are ordered among
// themselves and calls on device memory are ordered among themselves, but there is no order between the two kinds. In a
// forked child calls throw Failure and the destructor does nothing. Destroying a Communicator while others still call
// makes them throw PeerFailure (left); call barrier() first if that can happen.
#pragma once

#include "cxxrun/version.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "cxxrun/arena.hpp"
#include "cxxrun/dtype.hpp"
#include "cxxrun/failure.hpp"
#include "cxxrun/stream.hpp"
#include "cxxrun/worker_env.hpp"

namespace cxxrun {

/// Format of f32 elements on their way between nodes. The host backend adds up in f32 and converts nothing within a
/// node; NCCL converts everywhere and adds up in the converted type (docs/use/communicator.md). Ignored for other
/// types, for min and max, and by the host backend when all ranks are on one node.
enum class Wire : std::uint8_t { same = 0, bf16 = 1, f16 = 2 };

/// Which implementation runs the collectives. nccl: on device memory, one GPU per rank. host: on host memory. automatic
/// means host. A rank that cannot have the backend it asks for is refused with a message that names it; so are ranks
/// that ask for different backends, and a buffer of the wrong kind of memory.
enum class Backend : std::uint8_t { automatic, nccl, host };

/// Settings for every NCCL communicator made here; the same on every rank. NCCL chooses what is not set. Its own
/// variables (NCCL_MIN_CTAS, NCCL_MAX_CTAS, NCCL_CGA_CLUSTER_SIZE, NCCL_IB_TC) take precedence. The host backend
/// ignores these.
struct NcclSettings {
  std::optional<int> min_ctas{};  ///< blocks of NCCL's kernels, each of which occupies one multiprocessor: 1 to 64
  std::optional<int> max_ctas{};  ///< same range; less leaves more of the GPU to backward, and is slower
  std::optional<int> cga_cluster_size{};  ///< blocks per cluster, from compute capability 9.0 on: 0 to 8
  std::optional<int> traffic_class{};  ///< for InfiniBand and RoCE, 0 to 255; needs NCCL 2.26.2 or newer, else Failure
  std::string name{};                  ///< shown in NCCL's log and in profilers; ignored before NCCL 2.27.3
};

namespace client {
class Engine;
struct Access;
}  // namespace client

/// Handle of a collective in the background: a number in the Communicator's queue, so creating one allocates nothing.
/// Movable; destroying it does not wait. done(), wait() and wait_on() may be called from any thread; different Works
/// may be used at the same time.
class [[nodiscard]] Work {
 public:
  Work();  ///< done
  Work(Work const&) = delete;
  Work& operator=(Work const&) = delete;
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();
  [[nodiscard]] bool done() const;  ///< finished or failed; never blocks, never throws
  void wait();                      ///< blocks until done; throws the exception the call failed with
  /// On a device: makes `stream` wait for the call and returns at once; throws a failure that is known already.
  /// Otherwise like wait().
  void wait_on(Stream stream);

 private:
  friend class Communicator;
  friend struct client::Access;
  Work(std::shared_ptr<client::Engine> engine, std::uint64_t ticket);
  std::shared_ptr<client::Engine> engine_;
  std::uint64_t ticket_ = 0;
};

/// See the top of this file for buffers, blocking, errors and threads.
class Communicator {
 public:
  struct Options {
    /// How long one collective waits for a peer. Must be longer than anything one rank does alone between two
    /// collectives, such as writing a checkpoint. CXXRUN_OP_TIMEOUT (seconds) overrides it. At least 1 ms; more than a
    /// year, such as milliseconds::max(), counts as a year.
    std::chrono::milliseconds op_timeout = std::chrono::minutes(5);
    /// How long init() waits for all ranks; same bounds.
    std::chrono::milliseconds init_timeout = std::chrono::minutes(5);
    /// CXXRUN_BACKEND (auto, nccl, host) overrides it.
    Backend backend = Backend::automatic;
    /// After a PeerFailure this process calls rebuild() instead of ending, so the launcher does not kill it when it
    /// re-forms the job. run_elastic() sets it.
    bool survive = false;
    /// With `survive` and --nnodes MIN:MAX: when this process dies, the other nodes go on without its node as long as
    /// MIN nodes have all of their workers, and take the node back when its agent has restarted the missing ones.
    /// false: all nodes wait for the restart. The same on every rank.
    bool shrink = false;
    /// How long the kernels of an aborted NCCL communicator may take to end. After that the process exits with code 75
    /// and the launcher restarts it. Keep it shorter than cxxrun's --restart-timeout, after which the launcher kills
    /// the process without a message. It also limits the wait for an orderly shutdown of NCCL. At least 1 ms.
    std::chrono::milliseconds abort_deadline = std::chrono::seconds(4);
    NcclSettings nccl{};
  };

  /// Meets the other ranks in the store named by the environment. Blocks until all are there and connected. A world of
  /// one needs no store. If no launcher serves the store (plain srun or mpirun with RANK, WORLD_SIZE, LOCAL_RANK,
  /// LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT set), rank 0 hosts it.
  /// Failure: environment; usage (two processes with one rank, world sizes that differ, another version); timeout
  /// (names the ranks that did not come); refused; io. PeerFailure: a rank died after it had come. With
  /// Options::survive and cxxrun as launcher, init() waits for the next generation instead, and may throw the Failures
  /// of rebuild().
  [[nodiscard]] static Communicator init(Options const& options);
  [[nodiscard]] static Communicator init() { return init(Options{}); }
  [[nodiscard]] static Communicator init(WorkerEnv const& env, Options const& options);

  /// After a PeerFailure: drops the old world, waits for the next generation, and meets its ranks. rank(), world_size()
  /// and generation() change. Arenas of the old world keep their memory, but only for this process; objects built on
  /// this Communicator have to be built again. Blocks for as long as the launcher takes.
  /// Failure: usage without Options::survive or without a launcher that supports it (can_rebuild()); closed when the
  /// job ends instead; timeout when the launcher sees no problem for a minute; otherwise as for init(). PeerFailure
  /// when a peer of the new generation fails in the meantime: call rebuild() again.
  void rebuild();
  /// Whether rebuild() is possible. Also false for a rank that the PeerFailure names: the others have given it up, so
  /// it has to end for the launcher to notice the failure.
  [[nodiscard]] bool can_rebuild() const;
  /// Reports that `completed` steps are done. A job that makes progress is restarted without delay. Costs one store to
  /// memory.
  void report_step(std::uint64_t completed);
  /// Whether a checkpoint has been requested, by --checkpoint-signal or because the job has been told to end.
  /// Collective: every rank calls it equally often, best after each step. All ranks get the same answer in the same
  /// call, even if the request reached them at different times or reached only some of them. The answer is one call
  /// old: each call starts a 4-byte maximum in the background, which the next call reads. A request that arrives
  /// between a call that returned true and the next one is covered by that checkpoint. Always false without cxxrun.
  /// Errors as for any collective; docs/use/signals.md.
  [[nodiscard]] bool checkpoint_wanted();
  /// Whether the last checkpoint_wanted() returned true because the job has been told to end; the same on all ranks.
  /// Then save and leave the loop.
  [[nodiscard]] bool job_ends() const;

  Communicator(Communicator const&) = delete;
  Communicator& operator=(Communicator const&) = delete;
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  /// Splits the ranks into groups: ranks that give the same color form a Communicator, ordered by key and then by rank.
  /// Collective: every rank calls it. A rank with no color or a negative one gets no group. A group can be split again
  /// and may outlive the Communicator it came from. Ranks of a group count from 0; failures name ranks by their number
  /// in the world. A failure in one group ends all groups of the ranks involved, and through shared ranks the other
  /// groups: all throw the same PeerFailure. Only the Communicator from init() can rebuild(); after that the calls of
  /// its old groups throw Failure (usage), and it has to be split again.
  /// Failure: on all ranks, if something is wrong with one of them. docs/use/communicator.md says more.
  [[nodiscard]] std::optional<Communicator> split(std::optional<int> color, int key = 0);

  [[nodiscard]] int rank() const;
  [[nodiscard]] int world_size() const;
  [[nodiscard]] int world_rank(int rank) const;  ///< the number in the world of a rank of this group
  [[nodiscard]] int local_rank() const;          ///< as in the environment
  [[nodiscard]] std::uint64_t generation() const;
  /// The environment of the current generation. After rebuild() it differs from the variables of the process; in a
  /// group it has the group's rank and size.
  [[nodiscard]] WorkerEnv const& env() const;
  [[nodiscard]] std::string const& host(int rank) const;
  /// One line for a log: "rank 3 of 8 on node2: host backend, 2 nodes, 4 ranks share memory here", or with NCCL
  /// "…: NCCL 2.28.9 on NVIDIA H200 (GPU-…); for host memory: host backend, …".
  [[nodiscard]] std::string describe() const;

  /// out[i] = op over all ranks of in[i], for i < count.
  void all_reduce(void const* in, void* out, std::size_t count, DType type, ReduceOp op = ReduceOp::sum);
  /// out = this rank's part of the reduction. `out` has `count` elements, `in` world_size * count; rank r gets the part
  /// that starts at r * count.
  void reduce_scatter(void const* in, void* out, std::size_t count, DType type, ReduceOp op = ReduceOp::sum);
  /// out[r * count …] = in of rank r. `in` has `count` elements, `out` world_size * count.
  void all_gather(void const* in, void* out, std::size_t count, DType type);
  /// Copies the buffer of rank `root` to all ranks.
  void broadcast(void* data, std::size_t count, DType type, int root = 0);
  /// Sends part r of `in` to rank r, which stores it at (sender's rank) * count of `out`. Both buffers have
  /// world_size * count elements and must be distinct.
  void all_to_all(void const* in, void* out, std::size_t count, DType type);
  /// Returns when every rank has called it.
  void barrier();

  /// all_reduce in the background. Both buffers must stay valid until the Work is done. `scale` multiplies the result
  /// (floating point types only): with 1.0f / world_size() the result is a mean. It is a float for f64 as well, and
  /// free with the host backend. On device memory the call starts after the work that `stream` holds now.
  [[nodiscard]] Work start_all_reduce(void const* in, void* out, std::size_t count, DType type,
                                      ReduceOp op = ReduceOp::sum, Wire wire = Wire::same, float scale = 1.0F,
                                      Stream stream = {});
  /// The other collectives in the background, in the same queue. Each corresponds to the blocking call of the same
  /// name.
  [[nodiscard]] Work start_reduce_scatter(void const* in, void* out, std::size_t count, DType type,
                                          ReduceOp op = ReduceOp::sum, Wire wire = Wire::same, float scale = 1.0F,
                                          Stream stream = {});
  [[nodiscard]] Work start_all_gather(void const* in, void* out, std::size_t count, DType type, Stream stream = {});
  [[nodiscard]] Work start_broadcast(void* data, std::size_t count, DType type, int root = 0, Stream stream = {});

  template <class T>
  void all_reduce(std::span<T> data, ReduceOp op = ReduceOp::sum) {
    all_reduce(data.data(), data.data(), data.size(), dtype_of<T>, op);
  }
  template <class T>
  void broadcast(std::span<T> data, int root = 0) {
    broadcast(data.data(), data.size(), dtype_of<T>, root);
  }
  /// Gathers one value from every rank; the result is indexed by rank.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::vector<T> all_gather_value(T const& mine) {
    std::vector<T> all(static_cast<std::size_t>(world_size()));
    all_gather(&mine, all.data(), sizeof(T), DType::u8);
    return all;
  }

  /// Allocates an Arena of `bytes` on this rank; every rank calls it with the same size. Host memory that the ranks of
  /// a node share; with NCCL device memory, registered for NCCL's fastest paths. Lives until the last copy of the Arena
  /// and the Communicator are gone.
  /// Failure: io (no memory).
  [[nodiscard]] Arena arena(std::size_t bytes);

 private:
  friend struct client::Access;
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cxxrun
