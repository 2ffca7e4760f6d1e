#include "train/layers.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace train {
namespace {

/// c[m × n] += a[m × k] · b[k × n]. Four rows of b at a time: each element of c is loaded and stored a quarter as
/// often.
template <class T>
void multiply_add(T const* a, T const* b, T* c, std::size_t m, std::size_t k, std::size_t n) {
  for (std::size_t i = 0; i < m; ++i, a += k, c += n) {
    std::size_t p = 0;
    for (; p + 4 <= k; p += 4) {
      T const a0 = a[p];
      T const a1 = a[p + 1];
      T const a2 = a[p + 2];
      T const a3 = a[p + 3];
      T const* const b0 = b + p * n;
      T const* const b1 = b0 + n;
      T const* const b2 = b1 + n;
      T const* const b3 = b2 + n;
      for (std::size_t j = 0; j < n; ++j) {
        c[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
      }
    }
    for (; p < k; ++p) {
      for (std::size_t j = 0; j < n; ++j) {
        c[j] += a[p] * b[p * n + j];
      }
    }
  }
}

template <class T>
std::vector<T> transposed(In<T> matrix, std::size_t rows) {
  std::size_t const columns = rows == 0 ? 0 : matrix.size() / rows;
  std::vector<T> result(matrix.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      result[j * rows + i] = matrix[i * columns + j];
    }
  }
  return result;
}

template <class T>
T dot(T const* a, T const* b, std::size_t n) {
  T sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

template <class T>
T sigmoid(T x) {
  return T(1) / (T(1) + std::exp(-x));
}

constexpr double kGelu = 1.702;

}  // namespace

template <class T>
void embed(std::span<std::uint8_t const> tokens, In<T> weight, In<T> position, Out<T> out, std::size_t width) {
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    T const* const token = weight.data() + tokens[row] * width;
    T const* const place = position.data() + row * width % position.size();
    for (std::size_t i = 0; i < width; ++i) {
      out[row * width + i] = token[i] + place[i];
    }
  }
}

template <class T>
void embed_backward(std::span<std::uint8_t const> tokens, In<T> d_out, Out<T> d_weight, Out<T> d_position,
                    std::size_t width) {
  std::fill(d_weight.begin(), d_weight.end(), T(0));
  std::fill(d_position.begin(), d_position.end(), T(0));
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    T* const token = d_weight.data() + tokens[row] * width;
    T* const place = d_position.data() + row * width % d_position.size();
    for (std::size_t i = 0; i < width; ++i) {
      token[i] += d_out[row * width + i];
      place[i] += d_out[row * width + i];
    }
  }
}

template <class T>
void linear(In<T> in, In<T> weight, In<T> bias, Out<T> out) {
  std::size_t const outer = bias.size();
  std::size_t const inner = weight.size() / outer;
  std::size_t const rows = out.size() / outer;
  for (std::size_t row = 0; row < rows; ++row) {
    std::copy(bias.begin(), bias.end(), out.data() + row * outer);
  }
  multiply_add(in.data(), weight.data(), out.data(), rows, inner, outer);
}

template <class T>
void linear_backward(In<T> in, In<T> weight, In<T> d_out, Out<T> d_in, Out<T> d_weight, Out<T> d_bias) {
  std::size_t const outer = d_bias.size();
  std::size_t const inner = weight.size() / outer;
  std::size_t const rows = d_out.size() / outer;
  std::fill(d_in.begin(), d_in.end(), T(0));
  std::fill(d_weight.begin(), d_weight.end(), T(0));
  std::fill(d_bias.begin(), d_bias.end(), T(0));
  multiply_add(transposed(in, rows).data(), d_out.data(), d_weight.data(), inner, rows, outer);
  multiply_add(d_out.data(), transposed(weight, inner).data(), d_in.data(), rows, outer, inner);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t j = 0; j < outer; ++j) {
      d_bias[j] += d_out[row * outer + j];
    }
  }
}

template <class T>
void layer_norm(In<T> in, In<T> gain, In<T> bias, Out<T> out, Out<T> normal, Out<T> inverse) {
  std::size_t const width = gain.size();
  for (std::size_t row = 0; row < inverse.size(); ++row) {
    T const* const x = in.data() + row * width;
    T mean = 0;
    for (std::size_t i = 0; i < width; ++i) {
      mean += x[i];
    }
    mean /= static_cast<T>(width);
    T variance = 0;
    for (std::size_t i = 0; i < width; ++i) {
      variance += (x[i] - mean) * (x[i] - mean);
    }
    inverse[row] = T(1) / std::sqrt(variance / static_cast<T>(width) + T(1e-5));
    for (std::size_t i = 0; i < width; ++i) {
      std::size_t const at = row * width + i;
      normal[at] = (x[i] - mean) * inverse[row];
      out[at] = normal[at] * gain[i] + bias[i];
    }
  }
}

template <class T>
void layer_norm_backward(In<T> normal, In<T> inverse, In<T> gain, In<T> d_out, Out<T> d_in, Out<T> d_gain,
                         Out<T> d_bias) {
  std::size_t const width = gain.size();
  std::fill(d_gain.begin(), d_gain.end(), T(0));
  std::fill(d_bias.begin(), d_bias.end(), T(0));
  for (std::size_t row = 0; row < inverse.size(); ++row) {
    T const* const n = normal.data() + row * width;
    T const* const d = d_out.data() + row * width;
    T mean = 0;         // of the gradient of the normalized row …
    T correlation = 0;  // … and of its product with that row: the parts that mean and deviation take away
    for (std::size_t i = 0; i < width; ++i) {
      T const d_normal = d[i] * gain[i];
      mean += d_normal;
      correlation += d_normal * n[i];
      d_gain[i] += d[i] * n[i];
      d_bias[i] += d[i];
    }
    mean /= static_cast<T>(width);
    correlation /= static_cast<T>(width);
    for (std::size_t i = 0; i < width; ++i) {
      d_in[row * width + i] += (d[i] * gain[i] - mean - n[i] * correlation) * inverse[row];
    }
  }
}

template <class T>
void attend(T const* query, T const* key, T const* value, T* weights, T* out, HeadShape const& shape) {
  T const scale = T(1) / std::sqrt(static_cast<T>(shape.size));
  for (std::size_t i = 0; i < shape.length; ++i) {
    T* const row = weights + i * shape.length;
    for (std::size_t j = 0; j <= i; ++j) {
      row[j] = scale * dot(query + i * shape.stride, key + j * shape.stride, shape.size);
    }
    T const highest = *std::max_element(row, row + i + 1);
    T sum = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      row[j] = std::exp(row[j] - highest);
      sum += row[j];
    }
    T* const target = out + i * shape.out_stride;
    std::fill(target, target + shape.size, T(0));
    for (std::size_t j = 0; j <= i; ++j) {
      row[j] /= sum;
      for (std::size_t c = 0; c < shape.size; ++c) {
        target[c] += row[j] * value[j * shape.stride + c];
      }
    }
  }
}

template <class T>
void attend_backward(T const* query, T const* key, T const* value, T const* weights, T const* d_out, T* d_query,
                     T* d_key, T* d_value, HeadShape const& shape) {
  T const scale = T(1) / std::sqrt(static_cast<T>(shape.size));
  for (std::size_t i = 0; i < shape.length; ++i) {
    std::fill_n(d_query + i * shape.stride, shape.size, T(0));
    std::fill_n(d_key + i * shape.stride, shape.size, T(0));
    std::fill_n(d_value + i * shape.stride, shape.size, T(0));
  }
  std::vector<T> d_weight(shape.length);
  for (std::size_t i = 0; i < shape.length; ++i) {
    T const* const row = weights + i * shape.length;
    T const* const d = d_out + i * shape.out_stride;
    T mean = 0;
    for (std::size_t j = 0; j <= i; ++j) {
      d_weight[j] = dot(d, value + j * shape.stride, shape.size);
      mean += row[j] * d_weight[j];
    }
    for (std::size_t j = 0; j <= i; ++j) {
      T const d_score = row[j] * (d_weight[j] - mean) * scale;
      for (std::size_t c = 0; c < shape.size; ++c) {
        d_value[j * shape.stride + c] += row[j] * d[c];
        d_query[i * shape.stride + c] += d_score * key[j * shape.stride + c];
        d_key[j * shape.stride + c] += d_score * query[i * shape.stride + c];
      }
    }
  }
}

template <class T>
void gelu(In<T> in, Out<T> out) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    out[i] = in[i] * sigmoid(T(kGelu) * in[i]);
  }
}

template <class T>
void gelu_backward(In<T> in, In<T> d_out, Out<T> d_in) {
  for (std::size_t i = 0; i < in.size(); ++i) {
    T const s = sigmoid(T(kGelu) * in[i]);
    d_in[i] = d_out[i] * (s + T(kGelu) * in[i] * s * (T(1) - s));
  }
}

template <class T>
double cross_entropy(In<T> logits, std::span<std::uint8_t const> targets, Out<T> d_logits, T scale) {
  std::size_t const classes = targets.empty() ? 0 : logits.size() / targets.size();
  double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    T const* const x = logits.data() + row * classes;
    T* const d = d_logits.data() + row * classes;
    T const highest = *std::max_element(x, x + classes);
    T sum = 0;
    for (std::size_t i = 0; i < classes; ++i) {
      d[i] = std::exp(x[i] - highest);
      sum += d[i];
    }
    loss += static_cast<double>(std::log(sum) + highest - x[targets[row]]);
    for (std::size_t i = 0; i < classes; ++i) {
      d[i] = d[i] / sum * scale;
    }
    d[targets[row]] -= scale;
  }
  return loss;
}

#define TRAIN_INSTANTIATE(T)                                                                                     \
  template void embed(std::span<std::uint8_t const>, In<T>, In<T>, Out<T>, std::size_t);                         \
  template void embed_backward(std::span<std::uint8_t const>, In<T>, Out<T>, Out<T>, std::size_t);               \
  template void linear(In<T>, In<T>, In<T>, Out<T>);                                                             \
  template void linear_backward(In<T>, In<T>, In<T>, Out<T>, Out<T>, Out<T>);                                    \
  template void layer_norm(In<T>, In<T>, In<T>, Out<T>, Out<T>, Out<T>);                                         \
  template void layer_norm_backward(In<T>, In<T>, In<T>, In<T>, Out<T>, Out<T>, Out<T>);                         \
  template void attend(T const*, T const*, T const*, T*, T*, HeadShape const&);                                  \
  template void attend_backward(T const*, T const*, T const*, T const*, T const*, T*, T*, T*, HeadShape const&); \
  template void gelu(In<T>, Out<T>);                                                                             \
  template void gelu_backward(In<T>, In<T>, Out<T>);                                                             \
  template double cross_entropy(In<T>, std::span<std::uint8_t const>, Out<T>, T);
TRAIN_INSTANTIATE(float)
TRAIN_INSTANTIATE(double)
#undef TRAIN_INSTANTIATE

}  // namespace train
