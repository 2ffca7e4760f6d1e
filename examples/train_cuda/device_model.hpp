// The model of ../train/model.hpp on a device: the same parameters in the same order, the same steps.
//
// Parameters and gradients are the caller's device memory. Everything is queued on the caller's stream and returns.
// Instantiated for float; without nvcc for double too, to compare it with the other one.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "train/model.hpp"
#include "train_cuda/device.hpp"

namespace train {

template <class T>
class DeviceModel {
 public:
  /// Makes memory for batches of at most `most_rows` tokens, on the device that is the thread's.
  DeviceModel(Shape const& shape, std::size_t most_rows);

  /// Where the caller copies a batch to.
  [[nodiscard]] std::uint8_t* tokens() const { return tokens_.data(); }
  [[nodiscard]] std::uint8_t* targets() const { return targets_.data(); }

  /// *loss, in device memory, becomes the sum over all tokens of the loss of predicting the targets. `rows` tokens lie
  /// there: whole sequences, or none.
  void forward(cudaStream_t stream, std::span<std::span<T> const> parameters, std::size_t rows, double* loss);
  /// The gradients of the mean loss of the last forward(). ready(i): what is queued by now completes gradient i.
  void backward(cudaStream_t stream, std::span<std::span<T> const> parameters, std::span<std::span<T> const> gradients,
                std::function<void(std::size_t parameter)> const& ready);

 private:
  using Buffer = DeviceBuffer<T>;
  using Tensors = std::span<std::span<T> const>;
  struct Norm {
    Norm(std::size_t rows, std::size_t width) : out(rows * width), normal(rows * width), inverse(rows) {}
    Buffer out, normal, inverse;
  };
  struct Block {
    Block(Shape const& shape, std::size_t rows);
    Norm attention_norm, mlp_norm;
    Buffer qkv, weights, attended, projected, hidden, active, mlp;
  };
  /// The pass that is being queued.
  struct Pass {
    cudaStream_t stream;
    Tensors parameters;
    Tensors gradients;
  };

  void norm_forward(Pass const& pass, Norm const& norm, std::size_t index) const;
  void norm_backward(Pass const& pass, Norm const& norm, std::size_t index) const;
  void linear_forward(Pass const& pass, Buffer const& in, std::size_t weight, Buffer const& out) const;
  void linear_backward(Pass const& pass, Buffer const& in, std::size_t weight, Buffer const& d_out,
                       Buffer const& d_in) const;
  void block_forward(Pass const& pass, Block const& block, std::size_t first) const;
  void block_backward(Pass const& pass, Block const& block, std::size_t first,
                      std::function<void(std::size_t)> const& ready) const;

  Shape shape_;
  std::size_t rows_ = 0;  ///< of the last forward()
  DeviceBuffer<std::uint8_t> tokens_, targets_;
  DeviceBuffer<double> losses_;
  std::vector<std::unique_ptr<Block>> blocks_;
  Norm norm_;
  Buffer stream_;  ///< the residual stream
  Buffer logits_, d_logits_;
  Buffer d_stream_, d_norm_, d_hidden_, d_active_, d_qkv_, d_attended_, d_scores_;
};

}  // namespace train
