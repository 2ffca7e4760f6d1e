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

template <class T>
cxxrun::Tensor whole(std::span<T> values) {
  return {values.data(), values.size(), cxxrun::dtype_of<T>};
}

}  // namespace

Trainer::Trainer(cxxrun::Communicator& comm, Text const& text, Options const& options)
    : comm_(comm),
      text_(text),
      options_(options),
      shape_{.vocabulary = text.vocabulary()},
      names_(parameters(shape_)),
      arena_(comm.arena(arena_bytes(names_))),
      weights_(arena_.allocate<float>(total(names_))),
      mean_(arena_.allocate<float>(weights_.size())),
      square_(arena_.allocate<float>(weights_.size())),
      totals_(arena_.allocate<double>(2)),
      weight_(split(weights_)),
      mean_of_(split(mean_)),
      square_of_(split(square_)),
      model_(shape_),
      sampler_(text.samples(), options.seed),
      sync_(make_synchronizer()) {
  Model<float>::initialize(shape_, options.seed, weight_);
  state_.sampler = sampler_.state();
}

Trainer::Tensors Trainer::split(std::span<float> all) const {
  Tensors parts;
  for (ParameterShape const& parameter : names_) {
    parts.push_back(all.first(parameter.count));
    all = all.subspan(parameter.count);
  }
  return parts;
}

cxxrun::GradientSynchronizer Trainer::make_synchronizer() {
  std::vector<cxxrun::Parameter> list;
  for (ParameterShape const& parameter : names_) {
    list.push_back({parameter.name, parameter.count, cxxrun::DType::f32});
  }
  // Buckets as small as the model, or it would be one. The layout stays that of the first step: where an element lies
  // can decide in which order ranks are added up, and a resumed run has to add up as the one before did.
  return {comm_, std::move(list), {.first_bucket_bytes = 8 << 10, .bucket_bytes = 32 << 10, .rebuild_order = false}};
}

std::string Trainer::name() const {
  char hash[20];
  std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(text_.hash()));
  return describe(shape_) + " text=" + hash;
}

std::vector<cxxrun::Checkpoint::Blob> Trainer::blobs() const {
  return {{"weights", cxxrun::bytes_of(weights_)},
          {"adam.mean", cxxrun::bytes_of(mean_)},
          {"adam.square", cxxrun::bytes_of(square_)},
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
  copy("weights", weights_);
  copy("adam.mean", mean_);
  copy("adam.square", square_);
  copy("state", std::span(&state_, 1));
}

void Trainer::share() {
  cxxrun::Tensor const tensors[] = {
      whole(weights_), whole(mean_), whole(square_), {&state_, sizeof state_, cxxrun::DType::u8}};
  sync_.broadcast(tensors);
  sampler_.restore(state_.sampler);
}

std::uint64_t Trainer::step() {
  if (sampler_.done()) {
    sampler_.next_epoch();
  }
  auto const samples = sampler_.next(comm_.rank(), comm_.world_size(), options_.batch);
  auto const batch = text_.batch(samples);
  sync_.set_weight(static_cast<double>(samples.size()));
  Tensors gradients;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    gradients.push_back(sync_.gradient<float>(i));
  }
  double const loss = model_.forward(weight_, batch.tokens, batch.targets);
  model_.backward(weight_, gradients, [this](std::size_t i) { sync_.mark_ready(i); });
  sync_.wait();
  ++state_.step;
  optimize();
  totals_[0] = loss;
  totals_[1] = static_cast<double>(batch.targets.size());
  comm_.all_reduce(totals_);
  state_.loss = totals_[0] / totals_[1];
  state_.sampler = sampler_.state();
  return static_cast<std::uint64_t>(totals_[1]) / shape_.context;
}

void Trainer::optimize() {
  double const norm = sync_.gradient_norm();
  auto const scale = static_cast<float>(norm > kLargestNorm ? kLargestNorm / norm : 1);
  for (std::size_t i = 0; i < names_.size(); ++i) {
    adam({.rate = options_.rate}, state_.step, weight_[i], sync_.gradient<float>(i), mean_of_[i], square_of_[i], scale);
  }
}

std::uint64_t Trainer::hash() {
  std::uint64_t const mine = hash_of(cxxrun::bytes_of(weights_));
  auto const all = comm_.all_gather_value(mine);
  auto const other = std::find_if(all.begin(), all.end(), [&](std::uint64_t hash) { return hash != all.front(); });
  if (other != all.end()) {
    throw Failure({Errc::protocol, "the parameters of rank " + std::to_string(other - all.begin()) +
                                       " are not those of rank 0: a rank calculated something else"});
  }
  return mine;
}

}  // namespace train
