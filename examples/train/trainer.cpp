#include "train/trainer.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <utility>

#include "train/optimizer.hpp"

namespace train {
namespace {

using cxxrun::Errc;
using cxxrun::Failure;

constexpr double kLargestNorm = 1;  // of the gradient; a longer one is shortened

std::size_t total(std::vector<ParameterShape> const& names) {
  return std::accumulate(names.begin(), names.end(), std::size_t{0},
                         [](std::size_t sum, ParameterShape const& p) { return sum + p.count; });
}

std::size_t arena_bytes(std::vector<ParameterShape> const& names) {
  return 3 * (total(names) * sizeof(float) + cxxrun::Arena::kAlignment) + 2 * cxxrun::Arena::kAlignment;
}

std::vector<std::span<float>> split(std::span<float> all, std::vector<ParameterShape> const& names) {
  std::vector<std::span<float>> parts;
  for (ParameterShape const& parameter : names) {
    parts.push_back(all.first(parameter.count));
    all = all.subspan(parameter.count);
  }
  return parts;
}

cxxrun::GradientSynchronizer make_synchronizer(cxxrun::Communicator& comm, std::vector<ParameterShape> const& names) {
  std::vector<cxxrun::Parameter> list;
  for (ParameterShape const& parameter : names) {
    list.push_back({parameter.name, parameter.count, cxxrun::DType::f32});
  }
  // Buckets as small as the model, or it would be one. The layout stays that of the first step: where an element lies
  // can decide in which order ranks are added up, and a resumed run has to add up as the one before did.
  return {comm, std::move(list), {.first_bucket_bytes = 8 << 10, .bucket_bytes = 32 << 10, .rebuild_order = false}};
}

template <class T>
cxxrun::Tensor whole(std::span<T> values) {
  return {values.data(), values.size(), cxxrun::dtype_of<T>};
}

}  // namespace

Trainer::World::World(cxxrun::Communicator& communicator, std::vector<ParameterShape> const& names)
    : comm(communicator),
      arena(comm.arena(arena_bytes(names))),
      weights(arena.allocate<float>(total(names))),
      mean(arena.allocate<float>(weights.size())),
      square(arena.allocate<float>(weights.size())),
      totals(arena.allocate<double>(2)),
      weight(split(weights, names)),
      mean_of(split(mean, names)),
      square_of(split(square, names)),
      sync(make_synchronizer(comm, names)) {}

Trainer::Trainer(Text const& text, Options const& options)
    : text_(text),
      options_(options),
      shape_{.vocabulary = text.vocabulary()},
      names_(parameters(shape_)),
      model_(shape_),
      sampler_(text.samples(), options.seed) {
  state_.sampler = sampler_.state();
}

void Trainer::attach(cxxrun::Communicator& comm) {
  auto next = std::make_unique<World>(comm, names_);
  if (world_ != nullptr) {
    std::copy(world_->weights.begin(), world_->weights.end(), next->weights.begin());
    std::copy(world_->mean.begin(), world_->mean.end(), next->mean.begin());
    std::copy(world_->square.begin(), world_->square.end(), next->square.begin());
  } else {
    Model<float>::initialize(shape_, options_.seed, next->weight);
  }
  world_ = std::move(next);
  sampler_.restore(state_.sampler);  // a step that failed has taken samples
}

std::string Trainer::name() const {
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(text_.hash()));
  return describe(shape_) + " text=" + hash;
}

std::vector<cxxrun::Checkpoint::Blob> Trainer::blobs() const {
  return {{"weights", cxxrun::bytes_of(world_->weights)},
          {"adam.mean", cxxrun::bytes_of(world_->mean)},
          {"adam.square", cxxrun::bytes_of(world_->square)},
          {"state", std::as_bytes(std::span(&state_, 1))}};
}

void Trainer::restore(cxxrun::Checkpoint::Loaded const& saved) {
  auto const copy = [&](char const* name, auto to) {
    auto const from = saved.blob(name);
    if (from.size() != to.size_bytes()) {
      throw Failure({Errc::usage, saved.path + ": '" + name + "' has " + std::to_string(from.size()) +
                                      " bytes and should have " + std::to_string(to.size_bytes()) +
                                      "; give --checkpoint-dir an empty directory"});
    }
    std::memcpy(to.data(), from.data(), from.size());
  };
  copy("weights", world_->weights);
  copy("adam.mean", world_->mean);
  copy("adam.square", world_->square);
  copy("state", std::span(&state_, 1));
}

void Trainer::share(int donor) {
  cxxrun::Tensor const tensors[] = {
      whole(world_->weights), whole(world_->mean), whole(world_->square), {&state_, sizeof state_, cxxrun::DType::u8}};
  world_->sync.broadcast(tensors, donor);
  sampler_.restore(state_.sampler);
}

std::uint64_t Trainer::step() {
  auto& [comm, arena, weights, mean, square, totals, weight, mean_of, square_of, sync] = *world_;
  if (sampler_.done()) {
    sampler_.next_epoch();
  }
  auto const samples = sampler_.next(comm.rank(), comm.world_size(), options_.batch);
  auto const batch = text_.batch(samples);
  sync.set_weight(static_cast<double>(samples.size()));
  Tensors gradients;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    gradients.push_back(sync.gradient<float>(i));
  }
  double const loss = model_.forward(weight, batch.tokens, batch.targets);
  model_.backward(weight, gradients, [this](std::size_t i) { world_->sync.mark_ready(i); });
  sync.wait();
  totals[0] = loss;
  totals[1] = static_cast<double>(batch.targets.size());
  comm.all_reduce(totals);
  double const norm = sync.gradient_norm();
  // That was the last call: from here on the step cannot fail any more.
  ++state_.step;
  optimize(norm);
  state_.loss = totals[0] / totals[1];
  state_.sampler = sampler_.state();
  return static_cast<std::uint64_t>(totals[1]) / shape_.context;
}

void Trainer::optimize(double norm) {
  World& world = *world_;
  auto const scale = static_cast<float>(norm > kLargestNorm ? kLargestNorm / norm : 1);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    adam({.rate = options_.rate}, state_.step, world.weight[i], world.sync.gradient<float>(i), world.mean_of[i],
         world.square_of[i], scale);
  }
}

std::uint64_t Trainer::hash() {
  std::uint64_t const mine = hash_of(cxxrun::bytes_of(world_->weights));
  auto const all = world_->comm.all_gather_value(mine);
  auto const other = std::find_if(all.begin(), all.end(), [&](std::uint64_t hash) { return hash != all.front(); });
  if (other != all.end()) {
    throw Failure({Errc::protocol, "the parameters of rank " + std::to_string(other - all.begin()) +
                                       " are not those of rank 0: a rank calculated something else"});
  }
  return mine;
}

}  // namespace train
