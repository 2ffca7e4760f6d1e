#include "train_cuda/device_model.hpp"

#include "train_cuda/layers.hpp"

namespace train {

template <class T>
DeviceModel<T>::Block::Block(Shape const& shape, std::size_t rows)
    : attention_norm(rows, shape.width),
      mlp_norm(rows, shape.width),
      qkv(rows * 3 * shape.width),
      weights(rows * shape.context * shape.heads),
      attended(rows * shape.width),
      projected(rows * shape.width),
      hidden(rows * 4 * shape.width),
      active(rows * 4 * shape.width),
      mlp(rows * shape.width) {}

template <class T>
DeviceModel<T>::DeviceModel(Shape const& shape, std::size_t most_rows)
    : shape_(shape),
      tokens_(most_rows),
      targets_(most_rows),
      losses_(most_rows),
      norm_(most_rows, shape.width),
      stream_(most_rows * shape.width),
      logits_(most_rows * shape.vocabulary),
      d_logits_(most_rows * shape.vocabulary),
      d_stream_(most_rows * shape.width),
      d_norm_(most_rows * shape.width),
      d_hidden_(most_rows * 4 * shape.width),
      d_active_(most_rows * 4 * shape.width),
      d_qkv_(most_rows * 3 * shape.width),
      d_attended_(most_rows * shape.width),
      d_scores_(most_rows * shape.context * shape.heads) {
  for (std::size_t i = 0; i < shape.blocks; ++i) {
    blocks_.push_back(std::make_unique<Block>(shape, most_rows));
  }
}

template <class T>
void DeviceModel<T>::forward(cudaStream_t stream, Tensors parameters, std::size_t rows, double* loss) {
  rows_ = rows;
  Pass const pass{stream, parameters, {}};
  device::embed(stream, tokens(), parameters[0].data(), parameters[1].data(), stream_.data(),
                {rows, shape_.context, shape_.width, shape_.vocabulary});
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    block_forward(pass, *blocks_[i], kFirstBlock + i * block_parameters);
  }
  std::size_t const norm = behind_blocks(shape_);
  norm_forward(pass, norm_, norm);
  linear_forward(pass, norm_.out, norm + 2, logits_);
  T const scale = T(1) / static_cast<T>(std::max<std::size_t>(1, rows));
  device::cross_entropy(stream, logits_.data(), targets(), d_logits_.data(), losses_.data(), scale,
                        {rows, shape_.vocabulary});
  device::sum(stream, losses_.data(), loss, rows);
}

template <class T>
void DeviceModel<T>::backward(cudaStream_t stream, Tensors parameters, Tensors gradients,
                              std::function<void(std::size_t)> const& ready) {
  Pass const pass{stream, parameters, gradients};
  std::size_t const norm = behind_blocks(shape_);
  linear_backward(pass, norm_.out, norm + 2, d_logits_, d_norm_);
  ready(norm + 3);
  ready(norm + 2);
  check(cudaMemsetAsync(d_stream_.data(), 0, rows_ * shape_.width * sizeof(T), stream), "cudaMemsetAsync");
  norm_backward(pass, norm_, norm);
  ready(norm + 1);
  ready(norm);
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    block_backward(pass, *blocks_[i], kFirstBlock + i * block_parameters, ready);
  }
  device::embed_backward(stream, tokens(), d_stream_.data(), gradients[0].data(), gradients[1].data(),
                         {rows_, shape_.context, shape_.width, shape_.vocabulary});
  ready(1);
  ready(0);
}

/// Of the residual stream.
template <class T>
void DeviceModel<T>::norm_forward(Pass const& pass, Norm const& norm, std::size_t index) const {
  device::layer_norm(pass.stream, stream_.data(), pass.parameters[index].data(), pass.parameters[index + 1].data(),
                     norm.out.data(), norm.normal.data(), norm.inverse.data(), {rows_, shape_.width});
}

/// From d_norm_; adds to d_stream_.
template <class T>
void DeviceModel<T>::norm_backward(Pass const& pass, Norm const& norm, std::size_t index) const {
  device::layer_norm_backward(pass.stream, norm.normal.data(), norm.inverse.data(), pass.parameters[index].data(),
                              d_norm_.data(), d_stream_.data(), pass.gradients[index].data(),
                              pass.gradients[index + 1].data(), {rows_, shape_.width});
}

template <class T>
void DeviceModel<T>::linear_forward(Pass const& pass, Buffer const& in, std::size_t weight, Buffer const& out) const {
  std::size_t const outer = pass.parameters[weight + 1].size();
  device::linear(pass.stream, in.data(), pass.parameters[weight].data(), pass.parameters[weight + 1].data(), out.data(),
                 {rows_, pass.parameters[weight].size() / outer, outer});
}

template <class T>
void DeviceModel<T>::linear_backward(Pass const& pass, Buffer const& in, std::size_t weight, Buffer const& d_out,
                                     Buffer const& d_in) const {
  std::size_t const outer = pass.parameters[weight + 1].size();
  device::linear_backward(pass.stream, in.data(), pass.parameters[weight].data(), d_out.data(), d_in.data(),
                          pass.gradients[weight].data(), pass.gradients[weight + 1].data(),
                          {rows_, pass.parameters[weight].size() / outer, outer});
}

template <class T>
void DeviceModel<T>::block_forward(Pass const& pass, Block const& block, std::size_t first) const {
  norm_forward(pass, block.attention_norm, first + attention_gain);
  linear_forward(pass, block.attention_norm.out, first + qkv_weight, block.qkv);
  device::attend(pass.stream, block.qkv.data(), block.weights.data(), block.attended.data(),
                 {rows_ / shape_.context, shape_.heads, shape_.context, shape_.width / shape_.heads});
  linear_forward(pass, block.attended, first + projection_weight, block.projected);
  device::add(pass.stream, stream_.data(), block.projected.data(), rows_ * shape_.width);
  norm_forward(pass, block.mlp_norm, first + mlp_gain);
  linear_forward(pass, block.mlp_norm.out, first + hidden_weight, block.hidden);
  device::gelu(pass.stream, block.hidden.data(), block.active.data(), rows_ * 4 * shape_.width);
  linear_forward(pass, block.active, first + out_weight, block.mlp);
  device::add(pass.stream, stream_.data(), block.mlp.data(), rows_ * shape_.width);
}

/// d_stream_ is the gradient behind the block, and becomes that in front of it.
template <class T>
void DeviceModel<T>::block_backward(Pass const& pass, Block const& block, std::size_t first,
                                    std::function<void(std::size_t)> const& ready) const {
  auto const done = [&](std::size_t weight) {  // each layer has two parameters
    ready(first + weight + 1);
    ready(first + weight);
  };
  linear_backward(pass, block.active, first + out_weight, d_stream_, d_active_);
  done(out_weight);
  device::gelu_backward(pass.stream, block.hidden.data(), d_active_.data(), d_hidden_.data(), rows_ * 4 * shape_.width);
  linear_backward(pass, block.mlp_norm.out, first + hidden_weight, d_hidden_, d_norm_);
  done(hidden_weight);
  norm_backward(pass, block.mlp_norm, first + mlp_gain);
  done(mlp_gain);
  linear_backward(pass, block.attended, first + projection_weight, d_stream_, d_attended_);
  done(projection_weight);
  device::attend_backward(pass.stream, block.qkv.data(), block.weights.data(), d_attended_.data(), d_scores_.data(),
                          d_qkv_.data(),
                          {rows_ / shape_.context, shape_.heads, shape_.context, shape_.width / shape_.heads});
  linear_backward(pass, block.attention_norm.out, first + qkv_weight, d_qkv_, d_norm_);
  done(qkv_weight);
  norm_backward(pass, block.attention_norm, first + attention_gain);
  done(attention_gain);
}

template class DeviceModel<float>;
#ifdef TRAIN_ON_DOUBLE
template class DeviceModel<double>;
#endif

}  // namespace train
