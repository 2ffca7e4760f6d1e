// Communicator: the collectives of one generation's workers.
//
//   auto comm = cxxrun::Communicator::init();          // under cxxrun, torchrun, srun with the variables set, or alone
//   auto arena = comm.arena(64 << 20);
//   auto values = arena.allocate<float>(1000);
//   comm.all_reduce(values);                           // sum over all ranks, in place, without a copy
//
// Every rank makes the same calls in the same order, with the same counts, types and operations. A rank that does
// otherwise is noticed: all ranks get a Failure that names it, never a wrong sum. Results are the same bits on every
// rank and from run to run with the same placement of ranks on nodes.
//
// Inside a node ranks share memory, between nodes they use TCP; buffers from an arena() are used where they are,
// others are copied piecewise through shared memory. `in` and `out` may be the same buffer; otherwise they must not
// overlap. Pointers need the alignment of their type. Those of one call are all to host memory, or with NCCL all to
// device memory, on every rank alike; arena() is then the device's. What NCCL compares and what it does not:
// docs/design/nccl_backend.md. A blocking call on device memory begins behind the default stream's work.
//
// Blocking: every call blocks until it is done on this rank, at most op_timeout from when its turn comes (calls made
// before are done first), and with several nodes about 2 s longer, in which the nodes find out whose failure it is.
// Errors: PeerFailure when a peer died, left or is late; Failure for what a person has to mend. After either the
// Communicator is finished (failure.hpp). A call that no rank may make (root outside the world, null buffers) is a
// Failure on its own rank, and the others get PeerFailure (left).
//
// Threads: one thread at a time. What start_…() begins goes on in the background on a thread of the Communicator, in
// the order in which it was begun; calls made meanwhile are carried out after it. With NCCL calls on host memory and
// calls on device memory are in order among themselves, and not with each other. In a forked child calls throw
// Failure; destroying does nothing. Destroying it while others still call makes them throw PeerFailure (left); end with
// barrier() if that could happen.
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

/// What f32 elements are turned into on their way between nodes. On the host the sum is calculated in f32, and inside a
/// node nothing is converted; with NCCL they are turned everywhere, and added up as that type is
/// (docs/use/communicator.md). Ignored for other types, for min and max, and on the host where all ranks share one
/// node.
enum class Wire : std::uint8_t { same = 0, bf16 = 1, f16 = 2 };

/// What carries collectives out: of device memory nccl, one GPU for each rank; of host memory host. A rank that cannot
/// have what it asks for, or a buffer of the other kind, is refused by name; so are ranks that differ. automatic: host.
enum class Backend : std::uint8_t { automatic, nccl, host };

/// What NCCL is told of every communicator that it makes here: the same on every rank. What is not set is NCCL's
/// choice, and its own variables (NCCL_MIN_CTAS, NCCL_MAX_CTAS, NCCL_CGA_CLUSTER_SIZE, NCCL_IB_TC) count more. The host
/// backend makes no use of it.
struct NcclSettings {
  std::optional<int> min_ctas{};  ///< blocks of its kernels, which take as many of the GPU's processors: 1 to 64
  std::optional<int> max_ctas{};  ///< fewer leave more for backward, and are slower
  std::optional<int> cga_cluster_size{};  ///< of blocks, from compute capability 9.0 on: 0 to 8
  std::optional<int> traffic_class{};     ///< of InfiniBand and RoCE, 0 to 255; NCCL 2.26.2 or newer, else a Failure
  std::string name{};                     ///< in NCCL's log and for profilers; before NCCL 2.27.3 nowhere
};

namespace client {
class Engine;
struct Access;
}  // namespace client

/// A collective in the background: a number in the Communicator's queue, so making one allocates nothing. Movable;
/// destroying it does not wait. Any thread may ask; distinct Works may be asked at once.
class [[nodiscard]] Work {
 public:
  Work();  ///< done
  Work(Work const&) = delete;
  Work& operator=(Work const&) = delete;
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;
  ~Work();
  [[nodiscard]] bool done() const;  ///< finished or failed; never blocks, never throws
  void wait();                      ///< blocks until done; throws what the call failed with
  /// On a device: `stream` goes on when the call is done, and the host does not wait; throws what is known to have
  /// failed. Otherwise like wait().
  void wait_on(Stream stream);

 private:
  friend class Communicator;
  friend struct client::Access;
  Work(std::shared_ptr<client::Engine> engine, std::uint64_t ticket);
  std::shared_ptr<client::Engine> engine_;
  std::uint64_t ticket_ = 0;
};

class Communicator {
 public:
  struct Options {
    /// How long one collective waits for a peer. Longer than anything one rank does alone between two collectives,
    /// such as writing a checkpoint. CXXRUN_OP_TIMEOUT (seconds) overrides it. At least 1 ms; more than a year, such as
    /// milliseconds::max(), is a year.
    std::chrono::milliseconds op_timeout = std::chrono::minutes(5);
    /// How long init() waits for all ranks to come; in the same bounds.
    std::chrono::milliseconds init_timeout = std::chrono::minutes(5);
    /// CXXRUN_BACKEND (auto, nccl, host) overrides it.
    Backend backend = Backend::automatic;
    /// After a PeerFailure this process calls rebuild() instead of ending: the launcher then leaves it alone when it
    /// re-forms the job. run_elastic() sets it.
    bool survive = false;
    /// With `survive` and --nnodes MIN:MAX: when this process dies, the other nodes go on without its node as long as
    /// MIN of them have all of their workers, and take it in again when its agent has started what is missing. false:
    /// all wait for that. The same on every rank.
    bool shrink = false;
    /// How long the kernels of a communicator of NCCL's that is given up may take to end; then the process ends with
    /// code 75 and the launcher starts it anew. Shorter than cxxrun's --restart-timeout, which would kill it without a
    /// word. Also how long the end in good order is waited for. At least 1 ms.
    std::chrono::milliseconds abort_deadline = std::chrono::seconds(4);
    NcclSettings nccl{};
  };

  /// Meets the other ranks in the store that the environment names; blocks until all are there and connected.
  /// Alone (world of one) it needs nothing. Without a launcher's store (plain srun or mpirun with RANK, WORLD_SIZE,
  /// LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT set) rank 0 hosts it.
  /// Failure: environment, usage (two processes with one rank, world sizes that differ, another version), timeout
  /// (naming who did not come), refused, io. PeerFailure: a rank that had come died; with Options::survive and a
  /// launcher that can do it the next generation is waited for instead, with the Failures of rebuild().
  [[nodiscard]] static Communicator init(Options const& options);
  [[nodiscard]] static Communicator init() { return init(Options{}); }
  [[nodiscard]] static Communicator init(WorkerEnv const& env, Options const& options);

  /// After a PeerFailure: gives up what is left of the old world, waits for the next generation, and meets its ranks.
  /// rank(), world_size() and generation() are then new; the arenas of before keep their memory for this process alone,
  /// and the objects built on this Communicator have to be made anew. Blocks for as long as the launcher takes.
  /// Failure: usage without Options::survive or without a launcher that can do it (can_rebuild()); closed when the job
  /// ends instead; timeout when the launcher sees nothing wrong for a minute; otherwise as init(). PeerFailure when a
  /// peer of the new generation fails meanwhile: call it again.
  void rebuild();
  /// False also for a rank that the PeerFailure names: the others gave it up, and it has to end for the launcher to
  /// know.
  [[nodiscard]] bool can_rebuild() const;
  /// After a step: `completed` of them are done. A job that gets on is restarted at once. Costs a store to memory.
  void report_step(std::uint64_t completed);
  /// Whether a checkpoint has been asked for: by --checkpoint-signal, or because the job has been told to end.
  /// Collective: every rank calls it equally often, best after each step, and in the same call all get the same answer,
  /// although they are asked at different moments, or some of them only. The answer is what was known one call ago:
  /// each call begins a maximum of 4 bytes in the background, which the next one reads. What is asked between two calls
  /// of which the first said yes has been answered by it. False without cxxrun. Errors as of any other call;
  /// docs/use/signals.md.
  [[nodiscard]] bool checkpoint_wanted();
  /// Whether the last checkpoint_wanted() was true because the job has been told to end, on all ranks alike: save, and
  /// leave the loop.
  [[nodiscard]] bool job_ends() const;

  Communicator(Communicator const&) = delete;
  Communicator& operator=(Communicator const&) = delete;
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  /// The ranks that give the same color become a Communicator of their own, in which they are ordered by key and then
  /// by rank. Collective: every rank calls it; one that gives no color, or a negative one, gets nothing. A group may be
  /// split again, and lives as long as it likes beside the one it came from. Its ranks count from 0; failures name
  /// ranks as the whole world numbers them. What ends one of them ends all: the groups of a rank that died, and by way
  /// of the ranks they have in common the others, throw the same PeerFailure. rebuild() is that of the Communicator
  /// that init() gave; the calls of its groups are then Failures (usage), and it is split anew.
  /// Failure: on all ranks, when something is wrong with one of them. docs/use/communicator.md says more.
  [[nodiscard]] std::optional<Communicator> split(std::optional<int> color, int key = 0);

  [[nodiscard]] int rank() const;
  [[nodiscard]] int world_size() const;
  [[nodiscard]] int world_rank(int rank) const;  ///< of a rank of this group; else the same number
  [[nodiscard]] int local_rank() const;          ///< as the environment says
  [[nodiscard]] std::uint64_t generation() const;
  /// Of this generation: after rebuild() not what is in the environment of the process; in a group with its rank and
  /// size.
  [[nodiscard]] WorkerEnv const& env() const;
  [[nodiscard]] std::string const& host(int rank) const;
  /// One line for a log: "rank 3 of 8 on node2: host backend, 2 nodes, 4 ranks share memory here", or with NCCL
  /// "…: NCCL 2.28.9 on NVIDIA H200 (GPU-…); for host memory: host backend, …".
  [[nodiscard]] std::string describe() const;

  /// out[i] = op over all ranks of in[i]; `count` elements in each buffer.
  void all_reduce(void const* in, void* out, std::size_t count, DType type, ReduceOp op = ReduceOp::sum);
  /// out = this rank's part of the reduction: `count` elements out, world_size * count in, rank r's part at r * count.
  void reduce_scatter(void const* in, void* out, std::size_t count, DType type, ReduceOp op = ReduceOp::sum);
  /// out[r * count …] = rank r's in; `count` elements in, world_size * count out.
  void all_gather(void const* in, void* out, std::size_t count, DType type);
  /// Every rank's buffer becomes that of `root`.
  void broadcast(void* data, std::size_t count, DType type, int root = 0);
  /// Rank r's part of `in` goes to rank r, which finds it at (my rank) * count of `out`; world_size * count in each.
  /// Here `in` and `out` must be distinct.
  void all_to_all(void const* in, void* out, std::size_t count, DType type);
  /// Returns when every rank has called it.
  void barrier();

  /// Like all_reduce, in the background. Both buffers must stay until the Work is done. `scale` multiplies the result
  /// (floating point types only), on the host at no cost: 1.0f / world_size() makes it a mean, for f64 too only as
  /// precise as that float. Of device memory it begins after what `stream` holds by now.
  [[nodiscard]] Work start_all_reduce(void const* in, void* out, std::size_t count, DType type,
                                      ReduceOp op = ReduceOp::sum, Wire wire = Wire::same, float scale = 1.0F,
                                      Stream stream = {});
  /// The other collectives in the background, in the same queue. Each stands for its blocking namesake above.
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
  /// One value of every rank, by rank.
  template <class T>
  requires std::is_trivially_copyable_v<T>
  [[nodiscard]] std::vector<T> all_gather_value(T const& mine) {
    std::vector<T> all(static_cast<std::size_t>(world_size()));
    all_gather(&mine, all.data(), sizeof(T), DType::u8);
    return all;
  }

  /// Shared memory for buffers, `bytes` on every rank of the node; every rank calls it with the same size. With NCCL it
  /// is device memory, registered for its fastest paths. Failure: io (no memory). Released with the last of the Arena
  /// and the Communicator.
  [[nodiscard]] Arena arena(std::size_t bytes);

 private:
  friend struct client::Access;
  struct Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cxxrun
