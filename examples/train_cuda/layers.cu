#include <cmath>

#include "train_cuda/device.hpp"
#include "train_cuda/layers.hpp"

namespace train::device {
namespace {

template <class T>
struct Embed {
  std::uint8_t const* tokens;
  T const* weight;
  T const* position;
  T* out;
  EmbedShape shape;
  TRAIN_DEVICE void operator()(std::size_t at) const {
    std::size_t const row = at / shape.width;
    std::size_t const i = at % shape.width;
    out[at] = weight[tokens[row] * shape.width + i] + position[row % shape.context * shape.width + i];
  }
};

template <class T>
struct EmbedWeightGradient {
  std::uint8_t const* tokens;
  T const* d_out;
  T* d_weight;
  EmbedShape shape;
  TRAIN_DEVICE void operator()(std::size_t at) const {
    T sum = 0;
    for (std::size_t row = 0; row < shape.rows; ++row) {
      sum += tokens[row] == at / shape.width ? d_out[row * shape.width + at % shape.width] : T(0);
    }
    d_weight[at] = sum;
  }
};

template <class T>
struct EmbedPositionGradient {
  T const* d_out;
  T* d_position;
  EmbedShape shape;
  TRAIN_DEVICE void operator()(std::size_t at) const {
    T sum = 0;
    for (std::size_t row = at / shape.width; row < shape.rows; row += shape.context) {
      sum += d_out[row * shape.width + at % shape.width];
    }
    d_position[at] = sum;
  }
};

template <class T>
struct Linear {
  T const* in;
  T const* weight;
  T const* bias;
  T* out;
  LinearShape shape;
  TRAIN_DEVICE void operator()(std::size_t at) const {
    std::size_t const j = at % shape.outer;
    T const* const x = in + at / shape.outer * shape.inner;
    T sum = bias[j];
    for (std::size_t p = 0; p < shape.inner; ++p) {
      sum += x[p] * weight[p * shape.outer + j];
    }
    out[at] = sum;
  }
};

template <class T>
struct LinearInGradient {
  T const* weight;
  T const* d_out;
  T* d_in;
  LinearShape shape;
  TRAIN_DEVICE void operator()(std::size_t at) const {
    T const* const w = weight + at % shape.inner * shape.outer;
    T const* const d = d_out + at / shape.inner * shape.outer;
    d_in[at] = dot(d, w, shape.outer);
  }
};

template <class T>
struct LinearWeightGradient {
  T const* in;
  T const* d_out;
  T* d_weight;
  LinearShape shape;
  TRAIN_DEVICE void operator()(std::size_t at) const {
    d_weight[at] = dot(in + at / shape.outer, d_out + at % shape.outer, shape.rows, shape.inner, shape.outer);
  }
};

/// Of a bias: the sum over rows.
template <class T>
struct ColumnSum {
  T const* d_out;
  T* d_bias;
  std::size_t rows, width;
  TRAIN_DEVICE void operator()(std::size_t i) const {
    T sum = 0;
    for (std::size_t row = 0; row < rows; ++row) {
      sum += d_out[row * width + i];
    }
    d_bias[i] = sum;
  }
};

template <class T>
struct LayerNorm {
  T const* in;
  T const* gain;
  T const* bias;
  T* out;
  T* normal;
  T* inverse;
  std::size_t width;
  TRAIN_DEVICE void operator()(std::size_t row) const {
    T const* const x = in + row * width;
    T mean = 0;
    for (std::size_t i = 0; i < width; ++i) {
      mean += x[i];
    }
    mean /= static_cast<T>(width);
    T variance = 0;
    for (std::size_t i = 0; i < width; ++i) {
      variance += (x[i] - mean) * (x[i] - mean);
    }
    T const scale = T(1) / std::sqrt(variance / static_cast<T>(width) + T(1e-5));
    inverse[row] = scale;
    for (std::size_t i = 0; i < width; ++i) {
      T const value = (x[i] - mean) * scale;
      normal[row * width + i] = value;
      out[row * width + i] = value * gain[i] + bias[i];
    }
  }
};

template <class T>
struct LayerNormInGradient {
  T const* normal;
  T const* inverse;
  T const* gain;
  T const* d_out;
  T* d_in;
  std::size_t width;
  TRAIN_DEVICE void operator()(std::size_t row) const {
    T const* const n = normal + row * width;
    T const* const d = d_out + row * width;
    T mean = 0;         // of the gradient of the normalized row …
    T correlation = 0;  // … and of its product with that row: the parts that mean and deviation take away
    for (std::size_t i = 0; i < width; ++i) {
      mean += d[i] * gain[i];
      correlation += d[i] * gain[i] * n[i];
    }
    mean /= static_cast<T>(width);
    correlation /= static_cast<T>(width);
    for (std::size_t i = 0; i < width; ++i) {
      d_in[row * width + i] += (d[i] * gain[i] - mean - n[i] * correlation) * inverse[row];
    }
  }
};

template <class T>
struct GainGradient {
  T const* normal;
  T const* d_out;
  T* d_gain;
  NormShape shape;
  TRAIN_DEVICE void operator()(std::size_t i) const {
    d_gain[i] = dot(d_out + i, normal + i, shape.rows, shape.width, shape.width);
  }
};

template <class T>
TRAIN_DEVICE T gate(T x) {  // of the approximation of GELU
  return T(1) / (T(1) + std::exp(-T(1.702) * x));
}

template <class T>
struct Gelu {
  T const* in;
  T* out;
  TRAIN_DEVICE void operator()(std::size_t i) const { out[i] = in[i] * gate(in[i]); }
};

template <class T>
struct GeluGradient {
  T const* in;
  T const* d_out;
  T* d_in;
  TRAIN_DEVICE void operator()(std::size_t i) const {
    T const s = gate(in[i]);
    d_in[i] = d_out[i] * (s + T(1.702) * in[i] * s * (T(1) - s));
  }
};

template <class T>
struct Add {
  T* to;
  T const* what;
  TRAIN_DEVICE void operator()(std::size_t i) const { to[i] += what[i]; }
};

template <class T>
struct CrossEntropy {
  T const* logits;
  std::uint8_t const* targets;
  T* d_logits;
  double* losses;
  T scale;
  std::size_t classes;
  TRAIN_DEVICE void operator()(std::size_t row) const {
    T const* const x = logits + row * classes;
    T* const d = d_logits + row * classes;
    T highest = x[0];
    for (std::size_t i = 1; i < classes; ++i) {
      highest = x[i] > highest ? x[i] : highest;
    }
    T sum = 0;
    for (std::size_t i = 0; i < classes; ++i) {
      d[i] = std::exp(x[i] - highest);
      sum += d[i];
    }
    losses[row] = static_cast<double>(std::log(sum) + highest - x[targets[row]]);
    for (std::size_t i = 0; i < classes; ++i) {
      d[i] = d[i] / sum * scale - (i == targets[row] ? scale : T(0));
    }
  }
};

struct Sum {
  double const* values;
  double* total;
  std::size_t count;
  TRAIN_DEVICE void operator()(std::size_t /*one*/) const {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += values[i];
    }
    *total = sum;
  }
};

struct Adam {
  AdamStep step;
  float* parameter;
  float const* gradient;
  float* mean;
  float* square;
  TRAIN_DEVICE void operator()(std::size_t i) const {
    float const g = gradient[i] * step.scale;
    mean[i] = step.first * mean[i] + (1 - step.first) * g;
    square[i] = step.second * square[i] + (1 - step.second) * g * g;
    parameter[i] -= step.rate * mean[i] / (std::sqrt(square[i] * step.unbias) + 1e-8F);
  }
};

}  // namespace

template <class T>
void embed(cudaStream_t stream, std::uint8_t const* tokens, T const* weight, T const* position, T* out,
           EmbedShape shape) {
  each(stream, shape.rows * shape.width, Embed<T>{tokens, weight, position, out, shape});
}

template <class T>
void embed_backward(cudaStream_t stream, std::uint8_t const* tokens, T const* d_out, T* d_weight, T* d_position,
                    EmbedShape shape) {
  each(stream, shape.vocabulary * shape.width, EmbedWeightGradient<T>{tokens, d_out, d_weight, shape});
  each(stream, shape.context * shape.width, EmbedPositionGradient<T>{d_out, d_position, shape});
}

template <class T>
void linear(cudaStream_t stream, T const* in, T const* weight, T const* bias, T* out, LinearShape shape) {
  each(stream, shape.rows * shape.outer, Linear<T>{in, weight, bias, out, shape});
}

template <class T>
void linear_backward(cudaStream_t stream, T const* in, T const* weight, T const* d_out, T* d_in, T* d_weight, T* d_bias,
                     LinearShape shape) {
  each(stream, shape.rows * shape.inner, LinearInGradient<T>{weight, d_out, d_in, shape});
  each(stream, shape.inner * shape.outer, LinearWeightGradient<T>{in, d_out, d_weight, shape});
  each(stream, shape.outer, ColumnSum<T>{d_out, d_bias, shape.rows, shape.outer});
}

template <class T>
void layer_norm(cudaStream_t stream, T const* in, T const* gain, T const* bias, T* out, T* normal, T* inverse,
                NormShape shape) {
  each(stream, shape.rows, LayerNorm<T>{in, gain, bias, out, normal, inverse, shape.width});
}

template <class T>
void layer_norm_backward(cudaStream_t stream, T const* normal, T const* inverse, T const* gain, T const* d_out, T* d_in,
                         T* d_gain, T* d_bias, NormShape shape) {
  each(stream, shape.rows, LayerNormInGradient<T>{normal, inverse, gain, d_out, d_in, shape.width});
  each(stream, shape.width, GainGradient<T>{normal, d_out, d_gain, shape});
  each(stream, shape.width, ColumnSum<T>{d_out, d_bias, shape.rows, shape.width});
}

template <class T>
void gelu(cudaStream_t stream, T const* in, T* out, std::size_t count) {
  each(stream, count, Gelu<T>{in, out});
}

template <class T>
void gelu_backward(cudaStream_t stream, T const* in, T const* d_out, T* d_in, std::size_t count) {
  each(stream, count, GeluGradient<T>{in, d_out, d_in});
}

template <class T>
void add(cudaStream_t stream, T* to, T const* what, std::size_t count) {
  each(stream, count, Add<T>{to, what});
}

template <class T>
void cross_entropy(cudaStream_t stream, T const* logits, std::uint8_t const* targets, T* d_logits, double* losses,
                   T scale, LossShape shape) {
  each(stream, shape.rows, CrossEntropy<T>{logits, targets, d_logits, losses, scale, shape.classes});
}

void sum(cudaStream_t stream, double const* values, double* total, std::size_t count) {
  each(stream, 1, Sum{values, total, count});
}

void adam(cudaStream_t stream, AdamStep step, float* parameter, float const* gradient, float* mean, float* square,
          std::size_t count) {
  each(stream, count, Adam{step, parameter, gradient, mean, square});
}

#define TRAIN_INSTANTIATE(T)                                                                                      \
  template void embed(cudaStream_t, std::uint8_t const*, T const*, T const*, T*, EmbedShape);                     \
  template void embed_backward(cudaStream_t, std::uint8_t const*, T const*, T*, T*, EmbedShape);                  \
  template void linear(cudaStream_t, T const*, T const*, T const*, T*, LinearShape);                              \
  template void linear_backward(cudaStream_t, T const*, T const*, T const*, T*, T*, T*, LinearShape);             \
  template void layer_norm(cudaStream_t, T const*, T const*, T const*, T*, T*, T*, NormShape);                    \
  template void layer_norm_backward(cudaStream_t, T const*, T const*, T const*, T const*, T*, T*, T*, NormShape); \
  template void gelu(cudaStream_t, T const*, T*, std::size_t);                                                    \
  template void gelu_backward(cudaStream_t, T const*, T const*, T*, std::size_t);                                 \
  template void add(cudaStream_t, T*, T const*, std::size_t);                                                     \
  template void cross_entropy(cudaStream_t, T const*, std::uint8_t const*, T*, double*, T, LossShape);
TRAIN_FOR_TYPES(TRAIN_INSTANTIATE)
#undef TRAIN_INSTANTIATE

}  // namespace train::device
