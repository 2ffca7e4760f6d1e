// ZeRO-1 with public calls: every rank has all parameters, and the optimizer's state of its part of them alone.
//
//   cxxrun --nproc-per-node 4 build/release/bin/examples/zero1          (any launcher that sets RANK and the rest)
//
// A step: backward fills one bucket of gradients after the other, and each is reduced (start_reduce_scatter) while the
// next is filled. When this rank's part of a bucket is there, momentum is applied to it, and the new parameters go out
// (start_all_gather). The calls of one Communicator are carried out in the order in which they were begun, so every
// rank begins them in the same order: here all the reductions first, then all the gathers.
//
// Prints a hash of the parameters, and whether they are those of plain data parallelism (all_reduce, all of the state
// on every rank). They are the same bits for any number of ranks, because gradients are small whole numbers here: any
// order of adding them gives the same sum. Real gradients would agree within rounding.
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include "cxxrun/communicator.hpp"

namespace {

constexpr std::size_t kBuckets = 3;
constexpr std::size_t kPart = 5000;  // elements of a bucket that one rank owns
constexpr int kSteps = 20;
constexpr float kRate = 0.125F;
constexpr float kMomentum = 0.5F;

/// What backward would give: whole numbers that differ by rank, step and place.
float gradient_of(int rank, int step, std::size_t at) {
  return static_cast<float>((static_cast<std::size_t>(rank * 7 + step * 3) + at) % 17) - 8;
}

/// Momentum over `count` elements.
void update(float* parameters, float const* gradients, float* momentum, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    momentum[i] = kMomentum * momentum[i] + gradients[i];
    parameters[i] -= kRate * momentum[i];
  }
}

struct Bucket {
  std::span<float> gradients;   // of all parameters in it, of this rank's batch
  std::span<float> parameters;  // all of them
  std::span<float> part;        // sums of the gradients that this rank owns
  std::vector<float> momentum;  // of the parameters that this rank owns: ZeRO-1 saves the rest
  cxxrun::Work reduced;
  cxxrun::Work gathered;
};

class Zero1 {
 public:
  explicit Zero1(cxxrun::Communicator& comm)
      : comm_(comm), size_(kPart * static_cast<std::size_t>(comm.world_size())), arena_(comm.arena(bytes())) {
    for (Bucket& bucket : buckets_) {
      bucket.gradients = arena_.allocate<float>(size_);
      bucket.parameters = arena_.allocate<float>(size_);
      bucket.part = arena_.allocate<float>(kPart);
      bucket.momentum.resize(kPart);
    }
  }

  void step(int number) {
    for (Bucket& bucket : buckets_) {
      for (std::size_t i = 0; i < size_; ++i) {  // backward; the buckets before are being reduced meanwhile
        bucket.gradients[i] = gradient_of(comm_.rank(), number, i);
      }
      bucket.reduced = comm_.start_reduce_scatter(bucket.gradients.data(), bucket.part.data(), kPart,
                                                  cxxrun::DType::f32, cxxrun::ReduceOp::sum);
    }
    for (Bucket& bucket : buckets_) {
      bucket.reduced.wait();
      float* const mine = bucket.parameters.data() + static_cast<std::size_t>(comm_.rank()) * kPart;
      update(mine, bucket.part.data(), bucket.momentum.data(), kPart);
      bucket.gathered = comm_.start_all_gather(mine, bucket.parameters.data(), kPart, cxxrun::DType::f32);
    }
    for (Bucket& bucket : buckets_) {  // a real trainer waits for a bucket where forward needs it
      bucket.gathered.wait();
    }
  }

  [[nodiscard]] std::vector<float> parameters() const {
    std::vector<float> all;
    for (Bucket const& bucket : buckets_) {
      all.insert(all.end(), bucket.parameters.begin(), bucket.parameters.end());
    }
    return all;
  }

 private:
  [[nodiscard]] std::size_t bytes() const {
    return kBuckets * ((2 * size_ + kPart) * sizeof(float) + 3 * cxxrun::Arena::kAlignment);
  }

  cxxrun::Communicator& comm_;
  std::size_t size_;  // elements of a bucket
  cxxrun::Arena arena_;
  std::array<Bucket, kBuckets> buckets_{};
};

/// The same training with all of the state on every rank.
std::vector<float> data_parallel(cxxrun::Communicator& comm) {
  std::size_t const size = kPart * static_cast<std::size_t>(comm.world_size());
  std::vector<float> parameters(size * kBuckets);
  std::vector<float> momentum(parameters.size());
  std::vector<float> gradients(parameters.size());
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      gradients[i] = gradient_of(comm.rank(), step, i % size);
    }
    comm.all_reduce(std::span(gradients));
    update(parameters.data(), gradients.data(), momentum.data(), parameters.size());
  }
  return parameters;
}

std::uint64_t hash_of(std::vector<float> const& values) {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325U;
  for (float const value : values) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100'0000'01b3U;
  }
  return hash;
}

}  // namespace

int main() try {
  auto comm = cxxrun::Communicator::init();
  Zero1 zero1(comm);
  for (int step = 0; step < kSteps; ++step) {
    zero1.step(step);
  }
  auto const mine = zero1.parameters();
  bool const same = mine == data_parallel(comm);
  std::printf("rank %d of %d: parameters %016llx, %s data parallel's\n", comm.rank(), comm.world_size(),
              static_cast<unsigned long long>(hash_of(mine)), same ? "the same as" : "NOT");
  comm.barrier();
  return same ? 0 : 1;
} catch (std::exception const& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
