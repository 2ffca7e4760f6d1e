// GradientSynchronizer: averages gradients over all ranks while backward still runs.
//
//   cxxrun::GradientSynchronizer sync(comm, {{"embed", 65536}, {"w1", 4096}, …});   // in forward order
//   for (…) {
//     backward: write into sync.gradient<float>(i), then sync.mark_ready(i)      // any order, any thread
//     sync.wait();                                                             // gradients are means over all ranks
//     now optimizer step with sync.gradient<float>(i)
//   }
//
// Gradients live in buckets: gradient(i) is a view into one, nothing is copied. A bucket whose last gradient is ready
// is all-reduced in the background; buckets are launched in a fixed order, the same on every rank. The first holds
// about 1 MiB so that it can start early, the others about 25 MiB. After the first step the order in which rank 0's
// gradients became ready decides the layout, and the views move: take gradient(i) again in every step. (Once, this
// takes as much memory again as the gradients have; on a device at most 32 MiB.)
//
// With NCCL gradients are in device memory. mark_ready(i, stream) says that what `stream` holds by now completes the
// gradient, and the all-reduce is queued behind it; wait(stream) lets the stream go on behind all of them, and the host
// goes on at once. docs/use/gradient_synchronizer.md has what a device changes.
//
// A step ends with wait(). Between the first mark_ready and wait() make no other calls on the Communicator.
//
// Threads: mark_ready() from any thread, for different gradients at once, without a lock in the way; everything else
// from one thread. mark_ready() allocates nothing, with one exception: the first bucket that any step launches starts
// the Communicator's thread. It blocks only while more than 256 buckets wait to be reduced, and once with set_weight()
// and f16.
// Errors: PeerFailure from wait() and the other blocking calls. Failure names the parameter: marked twice, never
// marked, or different on another rank (found at construction); all ranks throw the same, from the wait() of that step.
// (A second mark that comes when the last bucket is already under way is thrown on its rank only; the others find that
// it left.) After what wait() throws, every later wait() throws the same again, except inside no_sync(), and the
// gradients mean nothing. An argument that is refused (an index, a type) leaves everything as it was.
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

/// One gradient: as many elements as its parameter.
struct Parameter {
  std::string name;  ///< for messages; unique
  std::size_t count = 0;
  DType type = DType::f32;  ///< f32, f64, f16 or bf16
};

/// A buffer of the caller's, for broadcast().
struct Tensor {
  void* data = nullptr;
  std::size_t count = 0;
  DType type = DType::f32;
};

/// When things happened in the last step, from its first mark_ready.
struct SyncStats {
  struct Bucket {
    std::size_t bytes = 0;
    std::chrono::nanoseconds ready{};     ///< its last gradient was marked
    std::chrono::nanoseconds launched{};  ///< its all-reduce was queued: not before that of the bucket in front
    std::chrono::nanoseconds done{};  ///< seen to be done: at a later launch, or in wait(); wait(stream) sees no more
  };
  std::vector<Bucket> buckets;         ///< in launch order
  std::chrono::nanoseconds exposed{};  ///< how long wait() blocked: what was not hidden behind backward
  std::uint64_t steps = 0;             ///< completed waits
};

class GradientSynchronizer {
 public:
  struct Options {
    std::size_t first_bucket_bytes = std::size_t{1} << 20;
    std::size_t bucket_bytes = std::size_t{25} << 20;
    Wire wire = Wire::same;  ///< format of f32 gradients between nodes
    bool average =
        true;  ///< false: wait() leaves the sum, and the caller applies scale(), for example in its optimizer
    /// Gradients not marked by wait() count as zero instead of being an error; those marked inside no_sync() before
    /// count as they are.
    bool find_unused = false;
    /// Lay buckets out anew after the first step; not in a world of one. The layout then depends on that step, and
    /// with it the last bits of sums: false where a run that was restarted has to end with the same bits.
    bool rebuild_order = true;
  };

  /// Every rank gives the same parameters in the same order. Blocks until all have compared them. `comm` must outlive
  /// this object. Failure (usage): the first parameter whose name, count or type another rank has otherwise.
  GradientSynchronizer(Communicator& comm, std::vector<Parameter> parameters, Options options);
  GradientSynchronizer(Communicator& comm, std::vector<Parameter> parameters);
  ~GradientSynchronizer();
  GradientSynchronizer(GradientSynchronizer const&) = delete;
  GradientSynchronizer& operator=(GradientSynchronizer const&) = delete;
  GradientSynchronizer(GradientSynchronizer&&) noexcept;
  GradientSynchronizer& operator=(GradientSynchronizer&&) = delete;

  [[nodiscard]] std::size_t size() const;  ///< number of parameters
  [[nodiscard]] bool on_device() const;    ///< where gradients are: in a device's memory, or the host's
  /// Aligned to Arena::kAlignment; valid until wait() returns. With NCCL device memory, as in gradient().
  [[nodiscard]] void* gradient_data(std::size_t index);
  /// Failure (usage) when T is not the parameter's type.
  template <class T>
  [[nodiscard]] std::span<T> gradient(std::size_t index) {
    return {static_cast<T*>(typed_data(index, dtype_of<std::remove_const_t<T>>)), count(index)};
  }
  [[nodiscard]] std::size_t count(std::size_t index) const;

  /// The gradient is complete on this rank; on a device: when `stream` has come to where it is now. Once per gradient
  /// and step; inside no_sync() it starts nothing.
  void mark_ready(std::size_t index, Stream stream = {});

  /// Blocks until every bucket has been reduced, then ends the step; inside no_sync() it returns at once. Gradients
  /// hold the result until they are written again; their owner zeroes or overwrites them. All mark_ready() calls of the
  /// step have returned before.
  void wait();
  /// On a device: what is queued on `stream` from now on comes after the step's results, and the host does not wait. A
  /// Failure about marks is then thrown by the next wait() or wait(stream), gradient_norm() or broadcast(), on all
  /// ranks; a PeerFailure by whatever call finds it. The host does wait, at the latest until the step's results are
  /// there, in the first step that lays buckets out anew, with set_weight(), with find_unused, and where this rank
  /// marked a gradient again too late to tell the others. Without a device like wait().
  void wait(Stream stream);

  /// For batches of different sizes: gradients are means over this rank's `samples` of the step, and the result is
  /// the mean over all samples of all ranks. Set it before the step's first mark_ready; it holds for that step.
  /// 0 is allowed (this rank contributes nothing and need not mark) as long as some rank has samples. All ranks call it
  /// in a step, or none. Only ratios matter. Gradients are multiplied with it before they are summed up, and with f16,
  /// whose range is small, with it over about the mean of all: to know that, the first mark_ready() that completes a
  /// bucket in the first weighted step waits once for the other ranks.
  void set_weight(double samples);
  /// What the sums of the last step have to be multiplied with to be means; 1 when they already are.
  [[nodiscard]] double scale() const;
  /// With find_unused: whether any rank marked the gradient in the last step. Else true.
  [[nodiscard]] bool used(std::size_t index) const;

  /// While it lives, gradients accumulate locally: mark_ready() at most notes that the gradient is used (find_unused),
  /// and wait() does nothing, nor does it throw. Take and give it back between steps.
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

  /// Parameters, optimizer state: every rank's tensors become those of `root`. Same counts and types everywhere.
  /// Between steps. Failure (usage) naming the first tensor that differs.
  void broadcast(std::span<Tensor const> tensors, int root = 0);

  /// The Euclidean norm of all gradients together, after wait(): the same bits on every rank. With average off it is
  /// that of the sums. Collective.
  [[nodiscard]] double gradient_norm();
  /// Its square, without the host: on a device `*result`, which is device memory, has it for what `stream` does from
  /// now on, and the gradients are read behind what `stream` holds by now. Not finite: a gradient of some rank is not,
  /// and the optimizer's kernels leave the step out. Leaves a verdict about marks to the next wait(), as wait(stream)
  /// does. Collective. Failure (usage), on its own rank: `result` is host memory, and gradients are not.
  void squared_norm(double* result, Stream stream);

  /// Shortens all gradients together to a norm of at most `most`, and returns what the norm was. If that is not finite,
  /// a gradient of some rank was not: nothing is changed, and every rank sees it, to leave its optimizer's step out.
  /// Collective; on a device it blocks until it is done. Failure (usage) unless `most` is finite and more than 0.
  [[nodiscard]] double clip_gradients(double most);

  [[nodiscard]] SyncStats const& stats() const;

 private:
  struct Impl;
  [[nodiscard]] void* typed_data(std::size_t index, DType type);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cxxrun
