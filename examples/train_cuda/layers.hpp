// The layers of ../train/layers.hpp on a device: the same functions, with everything in device memory. Each queues its
// work on `stream` and returns.
//
// One thread calculates one value or one row, so nothing depends on the order in which threads run, and the same input
// gives the same bits. For clarity, not for speed: a real trainer would call cuBLAS and cuDNN here.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace train::device {

struct EmbedShape {
  std::size_t rows, context, width, vocabulary;
};
template <class T>
void embed(cudaStream_t stream, std::uint8_t const* tokens, T const* weight, T const* position, T* out,
           EmbedShape shape);
template <class T>
void embed_backward(cudaStream_t stream, std::uint8_t const* tokens, T const* d_out, T* d_weight, T* d_position,
                    EmbedShape shape);

struct LinearShape {
  std::size_t rows, inner, outer;
};
template <class T>
void linear(cudaStream_t stream, T const* in, T const* weight, T const* bias, T* out, LinearShape shape);
template <class T>
void linear_backward(cudaStream_t stream, T const* in, T const* weight, T const* d_out, T* d_in, T* d_weight, T* d_bias,
                     LinearShape shape);

struct NormShape {
  std::size_t rows, width;
};
template <class T>
void layer_norm(cudaStream_t stream, T const* in, T const* gain, T const* bias, T* out, T* normal, T* inverse,
                NormShape shape);
/// Adds to d_in.
template <class T>
void layer_norm_backward(cudaStream_t stream, T const* normal, T const* inverse, T const* gain, T const* d_out, T* d_in,
                         T* d_gain, T* d_bias, NormShape shape);

/// All heads of all sequences. A row of `qkv` holds query, key and value of all heads, one behind the other.
struct AttentionShape {
  std::size_t sequences, heads, length, size;
};
template <class T>
void attend(cudaStream_t stream, T const* qkv, T* weights, T* out, AttentionShape shape);
/// `d_scores` is scratch memory of the size of `weights`.
template <class T>
void attend_backward(cudaStream_t stream, T const* qkv, T const* weights, T const* d_out, T* d_scores, T* d_qkv,
                     AttentionShape shape);

template <class T>
void gelu(cudaStream_t stream, T const* in, T* out, std::size_t count);
template <class T>
void gelu_backward(cudaStream_t stream, T const* in, T const* d_out, T* d_in, std::size_t count);

/// to += what
template <class T>
void add(cudaStream_t stream, T* to, T const* what, std::size_t count);

struct LossShape {
  std::size_t rows, classes;
};
/// losses[row] = -log softmax(logits)[target]; d_logits is the gradient of their sum times `scale`.
template <class T>
void cross_entropy(cudaStream_t stream, T const* logits, std::uint8_t const* targets, T* d_logits, double* losses,
                   T scale, LossShape shape);
/// *total = the sum of `count` values, in their order.
void sum(cudaStream_t stream, double const* values, double* total, std::size_t count);

/// ../train/optimizer.hpp.
struct AdamStep {
  float rate, unbias, first, second, scale;
};
void adam(cudaStream_t stream, AdamStep step, float* parameter, float const* gradient, float* mean, float* square,
          std::size_t count);

}  // namespace train::device
