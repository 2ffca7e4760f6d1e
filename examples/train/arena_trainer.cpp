#include "train/arena_trainer.hpp"

#include <cstdio>
#include <cstring>
#include <numeric>
#include <utility>

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

ArenaTrainer::World::World(cxxrun::Communicator& communicator, std::vector<ParameterShape> const& names)
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

ArenaTrainer::Tensors ArenaTrainer::World::gradients() {
  Tensors all;
  for (std::size_t i = 0; i < sync.size(); ++i) {
    all.push_back(sync.gradient<float>(i));
  }
  return all;
}

ArenaTrainer::ArenaTrainer(Text const& text, Options const& options)
    : text_(text),
      options_(options),
      shape_{.vocabulary = text.vocabulary()},
      names_(parameters(shape_)),
      sampler_(text.samples(), options.seed) {
  state_.sampler = sampler_.state();
}

void ArenaTrainer::attach(cxxrun::Communicator& comm) {
  auto next = std::make_unique<World>(comm, names_);
  if (world_ != nullptr) {
    copy(next->weights.data(), world_->weights.data(), world_->weights.size_bytes());
    copy(next->mean.data(), world_->mean.data(), world_->mean.size_bytes());
    copy(next->square.data(), world_->square.data(), world_->square.size_bytes());
  } else {
    initialize(*next);
  }
  world_ = std::move(next);
  sampler_.restore(state_.sampler);  // a step that failed has taken samples
}

/// Moments are zero: an arena is.
void ArenaTrainer::initialize(World& world) {
  std::vector<float> weights(world.weights.size());
  Model<float>::initialize(shape_, options_.seed, split(weights, names_));
  copy(world.weights.data(), weights.data(), world.weights.size_bytes());
}

std::string ArenaTrainer::name() const {
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(text_.hash()));
  return describe(shape_) + " text=" + hash;
}

std::vector<float> ArenaTrainer::fetch(std::span<float> values) {
  std::vector<float> fetched(values.size());
  copy(fetched.data(), values.data(), values.size_bytes());
  return fetched;
}

std::vector<cxxrun::Checkpoint::Blob> ArenaTrainer::blobs() {
  saved_weights_ = fetch(world_->weights);
  saved_mean_ = fetch(world_->mean);
  saved_square_ = fetch(world_->square);
  return {{"weights", cxxrun::bytes_of(saved_weights_)},
          {"adam.mean", cxxrun::bytes_of(saved_mean_)},
          {"adam.square", cxxrun::bytes_of(saved_square_)},
          {"state", std::as_bytes(std::span(&state_, 1))}};
}

void ArenaTrainer::restore(cxxrun::Checkpoint::Loaded const& saved) {
  auto const fitting = [&](char const* name, std::size_t bytes) {
    auto const from = saved.blob(name);
    if (from.size() != bytes) {
      throw Failure({Errc::usage, saved.path + ": '" + name + "' has " + std::to_string(from.size()) +
                                      " bytes and should have " + std::to_string(bytes) +
                                      "; give --checkpoint-dir an empty directory"});
    }
    return from.data();
  };
  auto const load = [&](char const* name, std::span<float> to) {
    copy(to.data(), fitting(name, to.size_bytes()), to.size_bytes());
  };
  load("weights", world_->weights);
  load("adam.mean", world_->mean);
  load("adam.square", world_->square);
  std::memcpy(&state_, fitting("state", sizeof state_), sizeof state_);
}

void ArenaTrainer::share(int donor) {
  cxxrun::Tensor const tensors[] = {
      whole(world_->weights), whole(world_->mean), whole(world_->square), {&state_, sizeof state_, cxxrun::DType::u8}};
  world_->sync.broadcast(tensors, donor);
  sampler_.restore(state_.sampler);
}

std::uint64_t ArenaTrainer::step() {
  World& world = *world_;
  if (sampler_.done()) {
    sampler_.next_epoch();
  }
  auto const samples = sampler_.next(world.comm.rank(), world.comm.world_size(), options_.batch);
  world.sync.set_weight(static_cast<double>(samples.size()));
  auto const [loss, characters] = calculate(world, text_.batch(samples));
  double const norm = world.sync.gradient_norm();
  // That was the last call: from here on the step cannot fail any more.
  ++state_.step;
  optimize(world, adam_factors({.rate = options_.rate}, state_.step),
           static_cast<float>(norm > kLargestNorm ? kLargestNorm / norm : 1));
  state_.loss = loss / characters;
  state_.sampler = sampler_.state();
  return static_cast<std::uint64_t>(characters) / shape_.context;
}

}  // namespace train
