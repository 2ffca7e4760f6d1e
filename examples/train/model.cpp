#include "train/model.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace train {
namespace {

template <class T>
void add(std::vector<T>& to, std::vector<T> const& what) {
  std::transform(to.begin(), to.end(), what.begin(), to.begin(), std::plus<T>());
}

}  // namespace

std::string describe(Shape const& shape) {
  return "char-gpt vocabulary=" + std::to_string(shape.vocabulary) + " context=" + std::to_string(shape.context) +
         " width=" + std::to_string(shape.width) + " heads=" + std::to_string(shape.heads) +
         " blocks=" + std::to_string(shape.blocks);
}

std::vector<ParameterShape> parameters(Shape const& shape) {
  std::size_t const width = shape.width;
  double const into_stream = 0.1 / std::sqrt(2.0 * static_cast<double>(shape.blocks));
  std::vector<ParameterShape> all{{"token_embedding", shape.vocabulary * width, 0.1, 0},
                                  {"position_embedding", shape.context * width, 0.1, 0}};
  auto const norm = [&](std::string const& name) {
    all.push_back({name + ".gain", width, 0, 1});
    all.push_back({name + ".bias", width, 0, 0});
  };
  auto const linear = [&](std::string const& name, std::size_t inner, std::size_t outer, double deviation) {
    all.push_back({name + ".weight", inner * outer, deviation, 0});
    all.push_back({name + ".bias", outer, 0, 0});
  };
  for (std::size_t i = 0; i < shape.blocks; ++i) {
    std::string const block = "block" + std::to_string(i) + ".";
    norm(block + "attention_norm");
    linear(block + "qkv", width, 3 * width, 0.1);
    linear(block + "projection", width, width, into_stream);
    norm(block + "mlp_norm");
    linear(block + "hidden", width, 4 * width, 0.1);
    linear(block + "out", 4 * width, width, into_stream);
  }
  norm("norm");
  linear("head", width, shape.vocabulary, 0.1);
  return all;
}

template <class T>
Model<T>::Model(Shape const& shape) : shape_(shape), blocks_(shape.blocks) {}

template <class T>
void Model<T>::initialize(Shape const& shape, std::uint64_t seed, Tensors parameters) {
  std::mt19937_64 random(seed);
  auto const shapes = train::parameters(shape);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (T& value : parameters[i]) {
      // Uniform rather than std::normal_distribution, whose values depend on the standard library.
      double const uniform = static_cast<double>(random() >> 11) * 0x1.0p-52 - 1;
      value = static_cast<T>(shapes[i].mean + shapes[i].deviation * std::sqrt(3.0) * uniform);
    }
  }
}

template <class T>
void Model<T>::resize(std::size_t rows) {
  std::size_t const width = shape_.width;
  auto const norm = [&](Norm& n) {
    n.out.resize(rows * width);
    n.normal.resize(rows * width);
    n.inverse.resize(rows);
  };
  for (Block& block : blocks_) {
    norm(block.attention_norm);
    norm(block.mlp_norm);
    block.qkv.resize(rows * 3 * width);
    block.weights.resize(rows * shape_.context * shape_.heads);
    block.hidden.resize(rows * 4 * width);
    block.active.resize(rows * 4 * width);
    for (auto* values : {&block.attended, &block.projected, &block.mlp}) {
      values->resize(rows * width);
    }
  }
  norm(norm_);
  for (auto* values : {&logits_, &d_logits_}) {
    values->resize(rows * shape_.vocabulary);
  }
  for (auto* values : {&stream_, &d_stream_, &d_norm_, &d_attended_}) {
    values->resize(rows * width);
  }
  for (auto* values : {&d_hidden_, &d_active_}) {
    values->resize(rows * 4 * width);
  }
  d_qkv_.resize(rows * 3 * width);
}

template <class T>
double Model<T>::forward(Tensors parameters, std::span<std::uint8_t const> tokens,
                         std::span<std::uint8_t const> targets) {
  resize(tokens.size());
  tokens_.assign(tokens.begin(), tokens.end());
  embed<T>(tokens_, parameters[0], parameters[1], stream_, shape_.width);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    block_forward(blocks_[i], parameters, kFirstBlock + i * block_parameters);
  }
  std::size_t const norm = behind_blocks(shape_);
  norm_forward(norm_, stream_, &parameters[norm]);
  linear<T>(norm_.out, parameters[norm + 2], parameters[norm + 3], logits_);
  return cross_entropy<T>(logits_, targets, d_logits_, T(1) / static_cast<T>(std::max<std::size_t>(1, targets.size())));
}

template <class T>
void Model<T>::backward(Tensors parameters, Tensors gradients, std::function<void(std::size_t)> const& ready) {
  std::size_t const norm = behind_blocks(shape_);
  linear_backward<T>(norm_.out, parameters[norm + 2], d_logits_, d_norm_, gradients[norm + 2], gradients[norm + 3]);
  ready(norm + 3);
  ready(norm + 2);
  std::fill(d_stream_.begin(), d_stream_.end(), T(0));
  norm_backward(norm_, norm, parameters, gradients, d_norm_);
  ready(norm + 1);
  ready(norm);
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    block_backward(blocks_[i], parameters, gradients, kFirstBlock + i * block_parameters, ready);
  }
  embed_backward<T>(tokens_, d_stream_, gradients[0], gradients[1], shape_.width);
  ready(1);
  ready(0);
}

template <class T>
void Model<T>::norm_forward(Norm& norm, std::vector<T> const& in, std::span<T> const* parameters) {
  layer_norm<T>(in, parameters[0], parameters[1], norm.out, norm.normal, norm.inverse);
}

/// Adds to d_stream_.
template <class T>
void Model<T>::norm_backward(Norm const& norm, std::size_t index, Tensors parameters, Tensors gradients,
                             std::vector<T> const& d_out) {
  layer_norm_backward<T>(norm.normal, norm.inverse, parameters[index], d_out, d_stream_, gradients[index],
                         gradients[index + 1]);
}

template <class T>
void Model<T>::block_forward(Block& block, Tensors parameters, std::size_t first) {
  auto const* const p = &parameters[first];
  norm_forward(block.attention_norm, stream_, p + attention_gain);
  linear<T>(block.attention_norm.out, p[qkv_weight], p[qkv_bias], block.qkv);
  attention(block);
  linear<T>(block.attended, p[projection_weight], p[projection_bias], block.projected);
  add(stream_, block.projected);
  norm_forward(block.mlp_norm, stream_, p + mlp_gain);
  linear<T>(block.mlp_norm.out, p[hidden_weight], p[hidden_bias], block.hidden);
  gelu<T>(block.hidden, block.active);
  linear<T>(block.active, p[out_weight], p[out_bias], block.mlp);
  add(stream_, block.mlp);
}

/// d_stream_ is the gradient behind the block, and becomes that in front of it.
template <class T>
void Model<T>::block_backward(Block const& block, Tensors parameters, Tensors gradients, std::size_t first,
                              std::function<void(std::size_t)> const& ready) {
  auto const* const p = &parameters[first];
  auto const* const g = &gradients[first];
  auto const done = [&](std::size_t weight) {  // each layer has two parameters
    ready(first + weight + 1);
    ready(first + weight);
  };
  linear_backward<T>(block.active, p[out_weight], d_stream_, d_active_, g[out_weight], g[out_bias]);
  done(out_weight);
  gelu_backward<T>(block.hidden, d_active_, d_hidden_);
  linear_backward<T>(block.mlp_norm.out, p[hidden_weight], d_hidden_, d_norm_, g[hidden_weight], g[hidden_bias]);
  done(hidden_weight);
  norm_backward(block.mlp_norm, first + mlp_gain, parameters, gradients, d_norm_);
  done(mlp_gain);
  linear_backward<T>(block.attended, p[projection_weight], d_stream_, d_attended_, g[projection_weight],
                     g[projection_bias]);
  done(projection_weight);
  attention_backward(block);
  linear_backward<T>(block.attention_norm.out, p[qkv_weight], d_qkv_, d_norm_, g[qkv_weight], g[qkv_bias]);
  done(qkv_weight);
  norm_backward(block.attention_norm, first + attention_gain, parameters, gradients, d_norm_);
  done(attention_gain);
}

template <class T>
void Model<T>::attention(Block& block) const {
  std::size_t const width = shape_.width;
  HeadShape const head{shape_.context, width / shape_.heads, 3 * width, width};
  for (std::size_t row = 0; row < tokens_.size(); row += shape_.context) {
    for (std::size_t h = 0; h < shape_.heads; ++h) {
      T const* const query = block.qkv.data() + row * 3 * width + h * head.size;
      T* const weights = block.weights.data() + (row * shape_.heads + h * shape_.context) * shape_.context;
      attend(query, query + width, query + 2 * width, weights, block.attended.data() + row * width + h * head.size,
             head);
    }
  }
}

template <class T>
void Model<T>::attention_backward(Block const& block) {
  std::size_t const width = shape_.width;
  HeadShape const head{shape_.context, width / shape_.heads, 3 * width, width};
  for (std::size_t row = 0; row < tokens_.size(); row += shape_.context) {
    for (std::size_t h = 0; h < shape_.heads; ++h) {
      std::size_t const at = row * 3 * width + h * head.size;
      T const* const query = block.qkv.data() + at;
      T* const d_query = d_qkv_.data() + at;
      T const* const weights = block.weights.data() + (row * shape_.heads + h * shape_.context) * shape_.context;
      attend_backward(query, query + width, query + 2 * width, weights,
                      d_attended_.data() + row * width + h * head.size, d_query, d_query + width, d_query + 2 * width,
                      head);
    }
  }
}

template class Model<float>;
template class Model<double>;

}  // namespace train
