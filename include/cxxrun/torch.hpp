// TorchGradients: a GradientSynchronizer for a libtorch model. Header only; needs libtorch 1.13 or later.
//
//   cxxrun::TorchGradients gradients(comm, *model);      // any torch::nn::Module, unchanged
//   for (…) {
//     gradients.zero();                                  // instead of optimizer.zero_grad()
//     loss(model->forward(input)).backward();            // each gradient is sent as soon as it is complete
//     gradients.wait();                                  // .grad holds the mean over all ranks
//     optimizer.step();
//   }
//
// The .grad of every parameter that requires one is a view into a bucket, and backward adds into it: nothing is copied.
// If libtorch puts a gradient elsewhere (after zero_grad() with set_to_none, or with create_graph), it is copied into
// its bucket; copied() counts these copies. Buckets move after the first step: read .grad again in every step.
//
// The rules of GradientSynchronizer apply: one backward() per step, more only inside no_sync(); no other call on the
// Communicator between backward() and wait(). Buffers (the statistics of BatchNorm) are not synchronized.
//
// Threads and errors as for GradientSynchronizer. Failure (usage) for a sparse gradient, and for a model that is not in
// the memory in which the Communicator sums. Not tested on a GPU.
#pragma once

#include "cxxrun/version.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <torch/csrc/autograd/utils/lambda_post_hook.h>
#include <torch/torch.h>
#include <utility>
#include <vector>

#include "cxxrun/gradient_synchronizer.hpp"

namespace cxxrun {

/// See the top of this file.
class TorchGradients {
 public:
  struct Options {
    GradientSynchronizer::Options synchronizer{};
    /// For a model on a GPU: returns the stream that torch queues work on. Called on the thread that runs backward:
    /// [] { return cxxrun::Stream{at::cuda::getCurrentCUDAStream().stream()}; }
    std::function<Stream()> stream{};
  };

  /// Skips parameters that require no gradient. Every rank gives the same model; blocks until all ranks have compared
  /// names, sizes and types. `comm` must outlive this object.
  TorchGradients(Communicator& comm, torch::nn::Module& model, Options options)
      : options_(std::move(options)),
        entries_(entries_of(model)),
        synchronizer_(comm, parameters_of(entries_), options_.synchronizer) {
    for (Entry const& entry : entries_) {
      require_place(entry);
    }
    zero();
  }
  TorchGradients(Communicator& comm, torch::nn::Module& model) : TorchGradients(comm, model, Options{}) {}

  /// Resets the .grad of parameters whose gradient is in the buckets; other references to these gradients dangle.
  ~TorchGradients() {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      unhook(entry);
      if (is_bound(i)) {
        entry.parameter.mutable_grad().reset();
      }
    }
  }
  TorchGradients(TorchGradients const&) = delete;
  TorchGradients& operator=(TorchGradients const&) = delete;

  /// Makes every .grad its view of a bucket, filled with zeros. Also call it after loading the model.
  void zero() {
    torch::NoGradGuard const guard;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      hook(i);
      bind(i);
      entries_[i].view.zero_();
    }
  }

  /// Ends the step, as GradientSynchronizer::wait(): afterwards .grad holds the result. With find_unused, a parameter
  /// that no rank used has no .grad, so the optimizer skips it. Does nothing inside no_sync().
  void wait() {
    auto const before = synchronizer_.stats().steps;
    options_.stream ? synchronizer_.wait(options_.stream()) : synchronizer_.wait();
    if (synchronizer_.stats().steps == before) {
      return;
    }
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (synchronizer_.used(i)) {
        bind(i);
      } else {
        entries_[i].parameter.mutable_grad().reset();
      }
    }
  }

  [[nodiscard]] GradientSynchronizer::NoSync no_sync() { return synchronizer_.no_sync(); }
  /// For set_weight(), gradient_norm(), stats() and so on. Parameters have the order of named_parameters().
  [[nodiscard]] GradientSynchronizer& synchronizer() { return synchronizer_; }
  /// Number of gradients copied into their bucket since construction.
  [[nodiscard]] std::uint64_t copied() const { return copied_.load(std::memory_order_relaxed); }

 private:
  // A shared pointer; an intrusive one in newer releases of libtorch.
  using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<torch::Tensor const&>()));
  struct Entry {
    std::string name;
    torch::Tensor parameter;
    DType type = DType::f32;
    torch::Tensor view{};       ///< into the bucket
    void* place = nullptr;      ///< where the view begins
    Accumulator accumulator{};  ///< the parameter itself holds it only weakly
    std::uintptr_t hook = 0;
  };

  [[noreturn]] static void refuse(std::string const& name, std::string const& why) {
    throw Failure(fail(Errc::usage, "parameter '" + name + "' " + why));
  }

  static DType type_of(std::string const& name, torch::Tensor const& parameter) {
    switch (parameter.scalar_type()) {
      case torch::kFloat: return DType::f32;
      case torch::kDouble: return DType::f64;
      case torch::kHalf: return DType::f16;
      case torch::kBFloat16: return DType::bf16;
      default:
        refuse(name, "is of type " + std::string(toString(parameter.scalar_type())) + ", which cannot be summed");
    }
  }

  // Layers may share a parameter: each appears once, under its first name.
  static std::vector<Entry> entries_of(torch::nn::Module const& model) {
    std::vector<Entry> entries;
    for (auto const& item : model.named_parameters()) {
      torch::Tensor const& parameter = item.value();
      bool known = !parameter.requires_grad();
      for (Entry const& entry : entries) {
        known = known || entry.parameter.is_same(parameter);
      }
      if (!known) {
        entries.push_back({item.key(), parameter, type_of(item.key(), parameter)});
      }
    }
    return entries;
  }

  static std::vector<Parameter> parameters_of(std::vector<Entry> const& entries) {
    std::vector<Parameter> parameters;
    for (Entry const& entry : entries) {
      parameters.push_back({entry.name, static_cast<std::size_t>(entry.parameter.numel()), entry.type});
    }
    return parameters;
  }

  void require_place(Entry const& entry) const {
    bool const device = synchronizer_.on_device();
    if (entry.parameter.is_cpu() == device) {
      refuse(entry.name, "is on " + entry.parameter.device().str() + ", and the Communicator sums " +
                             (device ? "in the memory of a GPU: move the model there, or ask for Backend::host"
                                     : "in host memory: ask for Backend::nccl"));
    }
    if (device && !options_.stream) {
      refuse(entry.name, "is on " + entry.parameter.device().str() + ": set TorchGradients::Options::stream");
    }
  }

  [[nodiscard]] bool is_bound(std::size_t i) const {
    auto const& grad = entries_[i].parameter.grad();
    return grad.defined() && !grad.is_sparse() && grad.numel() > 0 && grad.data_ptr() == entries_[i].place;
  }

  // Loading a model may give its parameters another accumulator.
  void hook(std::size_t i) {
    Entry& entry = entries_[i];
    auto accumulator = torch::autograd::impl::grad_accumulator(entry.parameter);
    if (accumulator == entry.accumulator) {
      return;
    }
    unhook(entry);
    entry.accumulator = std::move(accumulator);
    entry.hook = entry.accumulator->add_post_hook(std::make_unique<torch::autograd::utils::LambdaPostHook>(
        [this, i](torch::autograd::variable_list const& outputs, torch::autograd::variable_list const&) {
          complete(i);
          return outputs;
        }));
  }
  static void unhook(Entry& entry) {
    if (entry.accumulator) {
      entry.accumulator->del_post_hook(entry.hook);
    }
  }

  // Uses the parameter's own strides if they have no gaps, which is what libtorch expects; otherwise row-major order.
  void bind(std::size_t i) {
    Entry& entry = entries_[i];
    void* const place = synchronizer_.gradient_data(i);
    if (place != std::exchange(entry.place, place) || !entry.view.defined()) {
      auto const options = entry.parameter.options().requires_grad(false);
      entry.view = entry.parameter.is_non_overlapping_and_dense()
                       ? torch::from_blob(place, entry.parameter.sizes(), entry.parameter.strides(), options)
                       : torch::from_blob(place, entry.parameter.sizes(), options);
    }
    if (!is_bound(i)) {
      entry.parameter.mutable_grad() = entry.view;
    }
  }

  // Called on the thread that runs this part of backward.
  void complete(std::size_t i) {
    Entry& entry = entries_[i];
    if (!is_bound(i)) {
      torch::Tensor& grad = entry.parameter.mutable_grad();
      if (grad.is_sparse()) {
        refuse(entry.name, "has a sparse gradient, which cannot be summed");
      }
      torch::NoGradGuard const guard;
      if (grad.defined()) {
        entry.view.copy_(grad);
      } else {  // backward has none for it, which counts as zero
        entry.view.zero_();
      }
      grad = entry.view;
      copied_.fetch_add(1, std::memory_order_relaxed);
    }
    synchronizer_.mark_ready(i, options_.stream ? options_.stream() : Stream{});
  }

  Options options_;
  std::vector<Entry> entries_;
  GradientSynchronizer synchronizer_;
  std::atomic<std::uint64_t> copied_{0};
};

/// A model and its optimizer as bytes, for a checkpoint and for the state that survivors share.
[[nodiscard]] inline std::string torch_state(torch::nn::Module const& model, torch::optim::Optimizer const& optimizer) {
  torch::serialize::OutputArchive whole;
  torch::serialize::OutputArchive part;
  model.save(part);
  whole.write("model", part);
  torch::serialize::OutputArchive rest;
  optimizer.save(rest);
  whole.write("optimizer", rest);
  std::ostringstream bytes;
  whole.save_to(bytes);
  return std::move(bytes).str();
}

/// Restores the bytes into a model and an optimizer of the same structure. Throws c10::Error if the structure differs.
inline void set_torch_state(std::span<std::byte const> bytes, torch::nn::Module& model,
                            torch::optim::Optimizer& optimizer) {
  torch::serialize::InputArchive whole;
  torch::serialize::InputArchive part;
  torch::serialize::InputArchive rest;
  whole.load_from(reinterpret_cast<char const*>(bytes.data()), bytes.size());
  whole.read("model", part);
  model.load(part);
  whole.read("optimizer", rest);
  optimizer.load(rest);
}

}  // namespace cxxrun
