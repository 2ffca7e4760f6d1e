// GradientSynchronizer: averages gradients over all ranks while backward is still running.
//
//   cxxrun::GradientSynchronizer sync(comm, {{"embed", 65536}, {"w1", 4096}, …});   // in forward order
//   for (…) {
//     backward: write into sync.gradient<float>(i), then sync.mark_ready(i)      // any order, any thread
//     sync.wait();                                                             // gradients are means over all ranks
//     now optimizer step with sync.gradient<float>(i)
//   }
//
// Buckets: gradients live in buckets; gradient(i) is a view into one, so nothing is copied. When the last gradient of a
// bucket is ready, the bucket is all-reduced in the background. Buckets are launched in a fixed order, the same on
// every rank. The first bucket has about 1 MiB, so that it can start early, the others about 25 MiB. After the first
// step the buckets are laid out again in the order in which rank 0's gradients became ready. That moves the views: call
// gradient(i) again in every step. The move needs temporary memory once: as much as the gradients, on a device at most
// 32 MiB.
//
// With NCCL the gradients are device memory. mark_ready(i, stream) says that the work `stream` holds now completes the
// gradient, and the all-reduce is queued behind it. wait(stream) makes the stream wait for all results and returns at
// once. docs/use/gradient_synchronizer.md says what else a device changes.
//
// A step ends with wait(). Make no other calls on the Communicator between the first mark_ready() and wait().
//
// Threads: mark_ready() from any thread, also for different gradients at the same time, without a lock; everything else
// from one thread at a time. mark_ready() allocates nothing, except that the first bucket ever launched starts the
// Communicator's thread. It blocks only while more than 256 buckets wait to be reduced, and once with set_weight() and
// f16 gradients.
//
// Errors: PeerFailure from wait() and the other blocking calls. Failure names a parameter that was marked twice, was
// never marked, or is different on another rank (found at construction); all ranks throw the same Failure from the
// wait() of that step. Exception: a second mark that comes when the last bucket is already being reduced is thrown on
// its own rank only; the others see that this rank left. After wait() has thrown, every later wait() throws the same
// again, except inside no_sync(), and the gradients are undefined. A rejected argument (index, type) changes nothing.
#pragma once

#include "cxxrun/version.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "cxxrun/communicator.hpp"

namespace cxxrun {

/// A parameter of the model; its gradient has as many elements.
struct Parameter {
  std::string name;  ///< unique; for messages
  std::size_t count = 0;
  DType type = DType::f32;  ///< f32, f64, f16 or bf16
};

/// A buffer of the caller, for broadcast().
struct Tensor {
  void* data = nullptr;
  std::size_t count = 0;
  DType type = DType::f32;
};

/// Timing of the last step; times count from its first mark_ready().
struct SyncStats {
  struct Bucket {
    std::size_t bytes = 0;
    std::chrono::nanoseconds ready{};     ///< its last gradient was marked
    std::chrono::nanoseconds launched{};  ///< its all-reduce was queued, not before that of the previous bucket
    std::chrono::nanoseconds done{};      ///< seen to be done, at a later launch or in wait()
  };
  std::vector<Bucket> buckets;         ///< in launch order
  std::chrono::nanoseconds exposed{};  ///< how long wait() blocked: communication not hidden behind backward
  std::uint64_t steps = 0;             ///< number of completed wait() calls
};

class GradientSynchronizer {
 public:
  struct Options {
    std::size_t first_bucket_bytes = std::size_t{1} << 20;
    std::size_t bucket_bytes = std::size_t{25} << 20;
    Wire wire = Wire::same;  ///< format of f32 gradients between nodes
    /// false: wait() leaves the sum, and the caller multiplies by scale(), for example in its optimizer.
    bool average = true;
    /// A gradient that is not marked before wait() counts as zero instead of being an error. If it was marked inside
    /// no_sync() since the last step, it counts with its accumulated value.
    bool find_unused = false;
    /// Lay out the buckets again after the first step; not in a world of one. The layout, and with it the last bits of
    /// the sums, then depends on that step: set it to false if a restarted run has to reproduce the same bits.
    bool rebuild_order = true;
  };

  /// Every rank gives the same parameters in the same order. Blocks until all ranks have compared them. `comm` must
  /// outlive this object. Failure (usage): the first parameter whose name, count or type differs on another rank.
  GradientSynchronizer(Communicator& comm, std::vector<Parameter> parameters, Options options);
  GradientSynchronizer(Communicator& comm, std::vector<Parameter> parameters);
  ~GradientSynchronizer();
  GradientSynchronizer(GradientSynchronizer const&) = delete;
  GradientSynchronizer& operator=(GradientSynchronizer const&) = delete;
  GradientSynchronizer(GradientSynchronizer&&) noexcept;
  GradientSynchronizer& operator=(GradientSynchronizer&&) = delete;

  [[nodiscard]] std::size_t size() const;  ///< number of parameters
  [[nodiscard]] bool on_device() const;    ///< whether the gradients are in device memory
  /// Aligned to Arena::kAlignment; valid until wait() returns. Device memory with NCCL, as is gradient().
  [[nodiscard]] void* gradient_data(std::size_t index);
  /// The gradient as a span. Failure (usage) if T is not the parameter's type.
  template <class T>
  [[nodiscard]] std::span<T> gradient(std::size_t index) {
    return {static_cast<T*>(typed_data(index, dtype_of<std::remove_const_t<T>>)), count(index)};
  }
  [[nodiscard]] std::size_t count(std::size_t index) const;

  /// Marks the gradient as complete on this rank; on a device: complete once `stream` has done the work it holds now.
  /// Call it once per gradient and step. Inside no_sync() it starts nothing.
  void mark_ready(std::size_t index, Stream stream = {});

  /// Blocks until every bucket has been reduced, then ends the step; inside no_sync() it returns at once. The gradients
  /// keep the result until they are written again; the caller zeroes or overwrites them. All mark_ready() calls of the
  /// step must have returned before.
  void wait();
  /// On a device: work queued on `stream` from now on runs after the step's results are there, and the host does not
  /// wait. A Failure about marks is then thrown on all ranks by the next wait(), wait(stream), gradient_norm() or
  /// broadcast(); a PeerFailure by the call that finds it. The host does wait, at most until the step's results are
  /// there, in the first step if buckets are laid out again, with set_weight(), with find_unused, and if this rank
  /// marked a gradient twice too late to tell the others. Without a device like wait().
  void wait(Stream stream);

  /// For batches of different sizes: each gradient is a mean over this rank's `samples`, and the result is the mean
  /// over all samples of all ranks. Call it before the first mark_ready() of the step; it applies to that step only. 0
  /// is allowed (the rank contributes nothing and need not mark) as long as some rank has samples. In a step either all
  /// ranks call it or none. Only ratios matter. Gradients are multiplied by the weight before they are summed; with
  /// f16, whose range is small, by the weight divided by about the mean of all weights. To learn that mean, the first
  /// mark_ready() that completes a bucket in the first weighted step waits for the other ranks once.
  void set_weight(double samples);
  /// The factor that turns the sums of the last step into means; 1 if they are means already.
  [[nodiscard]] double scale() const;
  /// With find_unused: whether any rank marked the gradient in the last step. Otherwise true.
  [[nodiscard]] bool used(std::size_t index) const;

  /// While it lives, gradients accumulate locally: mark_ready() only records that the gradient is used (find_unused),
  /// and wait() does nothing and throws nothing. Create and destroy it between steps.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(GradientSynchronizer& sync);
    ~NoSync();
    NoSync(NoSync const&) = delete;
    NoSync& operator=(NoSync const&) = delete;

   private:
    GradientSynchronizer& sync_;
  };
  [[nodiscard]] NoSync no_sync();

  /// Copies the tensors of rank `root` (parameters, optimizer state) to every rank. Counts and types must be the same
  /// everywhere. Call it between steps. Failure (usage) names the first tensor that differs.
  void broadcast(std::span<Tensor const> tensors, int root = 0);

  /// The Euclidean norm of all gradients together, after wait(); the same bits on every rank. With average off it is
  /// the norm of the sums. Collective.
  [[nodiscard]] double gradient_norm();
  /// Its square, computed without waiting on the host. On a device `*result` must be device memory: work queued on
  /// `stream` from now on sees the value, and the gradients are read after the work that `stream` holds now. If the
  /// value is not finite, some rank has a gradient that is not, and the optimizer should skip the step. A pending
  /// Failure about marks stays for the next wait(), as with wait(stream). Collective. Failure (usage), on this rank
  /// only: `result` is host memory and the gradients are not.
  void squared_norm(double* result, Stream stream);

  /// Scales all gradients down to a total norm of at most `most` and returns the norm before. If that is not finite,
  /// some rank has a gradient that is not: nothing is changed, and every rank sees it and can skip its optimizer step.
  /// Collective; blocks on a device as well. Failure (usage) unless `most` is finite and positive.
  [[nodiscard]] double clip_gradients(double most);

  [[nodiscard]] SyncStats const& stats() const;

 private:
  struct Impl;
  [[nodiscard]] void* typed_data(std::size_t index, DType type);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cxxrun
