// The layers of a small transformer, forward and backward, as functions over flat arrays.
//
// Matrices are row-major; `rows` are independent positions (sequence × place). Backward functions overwrite the
// gradients of parameters with the sum over all rows, and d_in unless it says "adds". The order of every sum is fixed,
// so that the same input gives the same bits.
// Instantiated for float, to train, and for double, to check gradients against finite differences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace train {

template <class T>
using In = std::span<T const>;
template <class T>
using Out = std::span<T>;

/// out[row] = weight[token[row]] + position[row % length], `width` values each.
template <class T>
void embed(std::span<std::uint8_t const> tokens, In<T> weight, In<T> position, Out<T> out, std::size_t width);
template <class T>
void embed_backward(std::span<std::uint8_t const> tokens, In<T> d_out, Out<T> d_weight, Out<T> d_position,
                    std::size_t width);

/// out = in · weight + bias, with weight of inner × outer; rows follow from the sizes.
template <class T>
void linear(In<T> in, In<T> weight, In<T> bias, Out<T> out);
template <class T>
void linear_backward(In<T> in, In<T> weight, In<T> d_out, Out<T> d_in, Out<T> d_weight, Out<T> d_bias);

/// Each row of width gain.size() gets mean 0 and variance 1, then gain and bias. `inverse` keeps 1 / deviation per row.
template <class T>
void layer_norm(In<T> in, In<T> gain, In<T> bias, Out<T> out, Out<T> normal, Out<T> inverse);
/// Adds to d_in, because a residual path runs beside every norm.
template <class T>
void layer_norm_backward(In<T> normal, In<T> inverse, In<T> gain, In<T> d_out, Out<T> d_in, Out<T> d_gain,
                         Out<T> d_bias);

/// Causal self-attention of one head. Rows of query, key and value lie `stride` apart, those of out `out_stride`.
/// `weights` keeps length × length probabilities for backward.
struct HeadShape {
  std::size_t length = 0;  ///< positions of the sequence
  std::size_t size = 0;    ///< values of a query
  std::size_t stride = 0;
  std::size_t out_stride = 0;
};
template <class T>
void attend(T const* query, T const* key, T const* value, T* weights, T* out, HeadShape const& shape);
/// Overwrites the three gradients.
template <class T>
void attend_backward(T const* query, T const* key, T const* value, T const* weights, T const* d_out, T* d_query,
                     T* d_key, T* d_value, HeadShape const& shape);

/// x · sigmoid(1.702 x), which is close to GELU.
template <class T>
void gelu(In<T> in, Out<T> out);
template <class T>
void gelu_backward(In<T> in, In<T> d_out, Out<T> d_in);

/// Sum over rows of -log softmax(logits)[target]. d_logits becomes the gradient of that sum times `scale`.
template <class T>
double cross_entropy(In<T> logits, std::span<std::uint8_t const> targets, Out<T> d_logits, T scale);

}  // namespace train
