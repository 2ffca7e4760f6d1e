// A character-level GPT small enough for a CPU: token and position embedding, blocks of causal attention and MLP with
// layer norm in front of each, and a linear head.
//
// Parameters and gradients are the caller's memory, one span per parameter in the order of parameters(), which is
// forward order. backward() reports each gradient as soon as it is complete, last layer first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "train/layers.hpp"

namespace train {

struct Shape {
  std::size_t vocabulary = 64;
  std::size_t context = 32;
  std::size_t width = 32;
  std::size_t heads = 4;
  std::size_t blocks = 2;
};

struct ParameterShape {
  std::string name;
  std::size_t count = 0;
  double deviation = 0;  ///< of its initial values; their mean is 1 for gains, else 0
  double mean = 0;
};

/// What a checkpoint belongs to: a model of other shapes cannot use it.
[[nodiscard]] std::string describe(Shape const& shape);
[[nodiscard]] std::vector<ParameterShape> parameters(Shape const& shape);

/// Where the parameters of a block are, from its first.
enum BlockParameter : std::size_t {
  attention_gain,
  attention_bias,
  qkv_weight,
  qkv_bias,
  projection_weight,
  projection_bias,
  mlp_gain,
  mlp_bias,
  hidden_weight,
  hidden_bias,
  out_weight,
  out_bias,
  block_parameters
};
inline constexpr std::size_t kFirstBlock = 2;  ///< behind the two embeddings

inline std::size_t behind_blocks(Shape const& shape) {
  return kFirstBlock + shape.blocks * block_parameters;
}

template <class T>
class Model {
 public:
  explicit Model(Shape const& shape);

  /// The initial values; the same on every machine for the same seed.
  static void initialize(Shape const& shape, std::uint64_t seed, std::span<std::span<T> const> parameters);

  /// The sum over all tokens of the loss of predicting `targets`; both hold whole sequences, and may hold none.
  double forward(std::span<std::span<T> const> parameters, std::span<std::uint8_t const> tokens,
                 std::span<std::uint8_t const> targets);
  /// The gradients of the mean loss of the last forward(), all zero after an empty one.
  void backward(std::span<std::span<T> const> parameters, std::span<std::span<T> const> gradients,
                std::function<void(std::size_t parameter)> const& ready);

 private:
  struct Norm {
    std::vector<T> out, normal, inverse;
  };
  struct Block {
    Norm attention_norm, mlp_norm;
    std::vector<T> qkv, weights, attended, projected, hidden, active, mlp;
  };
  using Tensors = std::span<std::span<T> const>;

  void resize(std::size_t rows);
  void norm_forward(Norm& norm, std::vector<T> const& in, std::span<T> const* parameters);
  void norm_backward(Norm const& norm, std::size_t index, Tensors parameters, Tensors gradients,
                     std::vector<T> const& d_out);
  void block_forward(Block& block, Tensors parameters, std::size_t first);
  void block_backward(Block const& block, Tensors parameters, Tensors gradients, std::size_t first,
                      std::function<void(std::size_t)> const& ready);
  void attention(Block& block) const;
  void attention_backward(Block const& block);

  Shape shape_;
  std::vector<std::uint8_t> tokens_;
  std::vector<Block> blocks_;
  Norm norm_;
  std::vector<T> stream_;  ///< the residual stream
  std::vector<T> logits_, d_logits_;
  std::vector<T> d_stream_, d_norm_, d_hidden_, d_active_, d_qkv_, d_attended_;
};

}  // namespace train
