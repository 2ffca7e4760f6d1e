// The attention of layers.hpp.
#include <cmath>

#include "train_cuda/device.hpp"
#include "train_cuda/layers.hpp"

namespace train::device {
namespace {

/// One query: position `i` of a head of a sequence.
struct Place {
  TRAIN_DEVICE Place(std::size_t at, AttentionShape const& shape)
      : i(at % shape.length),
        stride(3 * shape.heads * shape.size),
        out_stride(shape.heads * shape.size),
        first(at / shape.length / shape.heads * shape.length),
        column(at / shape.length % shape.heads * shape.size),
        weights((at - i) * shape.length) {}
  std::size_t i, stride, out_stride;
  std::size_t first;    ///< row of the sequence's first position
  std::size_t column;   ///< of the head in a row
  std::size_t weights;  ///< where its length × length probabilities are

  /// Where values of position `j` are: its query; key and value are out_stride and twice that further.
  [[nodiscard]] TRAIN_DEVICE std::size_t query(std::size_t j) const { return (first + j) * stride + column; }
  [[nodiscard]] TRAIN_DEVICE std::size_t key(std::size_t j) const { return query(j) + out_stride; }
  [[nodiscard]] TRAIN_DEVICE std::size_t value(std::size_t j) const { return query(j) + 2 * out_stride; }
  [[nodiscard]] TRAIN_DEVICE std::size_t out(std::size_t j) const { return (first + j) * out_stride + column; }
};

/// to = 0
template <class T>
TRAIN_DEVICE void clear(T* to, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = 0;
  }
}

/// to += factor * what
template <class T>
TRAIN_DEVICE void add_scaled(T* to, T factor, T const* what, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    to[i] += factor * what[i];
  }
}

template <class T>
struct Attend {
  T const* qkv;
  T* weights;
  T* out;
  AttentionShape shape;
  TRAIN_DEVICE void operator()(std::size_t at) const {
    Place const place(at, shape);
    T const scale = T(1) / std::sqrt(static_cast<T>(shape.size));
    T* const row = weights + place.weights + place.i * shape.length;
    T highest = 0;
    for (std::size_t j = 0; j <= place.i; ++j) {
      row[j] = scale * dot(qkv + place.query(place.i), qkv + place.key(j), shape.size);
      highest = j == 0 || row[j] > highest ? row[j] : highest;
    }
    T sum = 0;
    for (std::size_t j = 0; j <= place.i; ++j) {
      row[j] = std::exp(row[j] - highest);
      sum += row[j];
    }
    T* const target = out + place.out(place.i);
    clear(target, shape.size);
    for (std::size_t j = 0; j <= place.i; ++j) {
      row[j] /= sum;
      add_scaled(target, row[j], qkv + place.value(j), shape.size);
    }
  }
};

/// Gradients of the scores of one query, and of the query.
template <class T>
struct QueryGradient {
  T const* qkv;
  T const* weights;
  T const* d_out;
  T* d_scores;
  T* d_qkv;
  AttentionShape shape;
  TRAIN_DEVICE void operator()(std::size_t at) const {
    Place const place(at, shape);
    T const scale = T(1) / std::sqrt(static_cast<T>(shape.size));
    T const* const row = weights + place.weights + place.i * shape.length;
    T* const d_row = d_scores + place.weights + place.i * shape.length;
    T mean = 0;
    for (std::size_t j = 0; j <= place.i; ++j) {
      d_row[j] = dot(d_out + place.out(place.i), qkv + place.value(j), shape.size);
      mean += row[j] * d_row[j];
    }
    T* const d_query = d_qkv + place.query(place.i);
    clear(d_query, shape.size);
    for (std::size_t j = 0; j <= place.i; ++j) {
      d_row[j] = row[j] * (d_row[j] - mean) * scale;
      add_scaled(d_query, d_row[j], qkv + place.key(j), shape.size);
    }
  }
};

/// Gradients of key and value of one position, which those at and behind it look at.
template <class T>
struct KeyGradient {
  T const* qkv;
  T const* weights;
  T const* d_out;
  T const* d_scores;
  T* d_qkv;
  AttentionShape shape;
  TRAIN_DEVICE void operator()(std::size_t at) const {
    Place const place(at, shape);
    std::size_t const j = place.i;
    for (std::size_t c = 0; c < shape.size; ++c) {
      T d_key = 0;
      T d_value = 0;
      for (std::size_t i = j; i < shape.length; ++i) {
        d_key += d_scores[place.weights + i * shape.length + j] * qkv[place.query(i) + c];
        d_value += weights[place.weights + i * shape.length + j] * d_out[place.out(i) + c];
      }
      d_qkv[place.key(j) + c] = d_key;
      d_qkv[place.value(j) + c] = d_value;
    }
  }
};

}  // namespace

template <class T>
void attend(cudaStream_t stream, T const* qkv, T* weights, T* out, AttentionShape shape) {
  each(stream, shape.sequences * shape.heads * shape.length, Attend<T>{qkv, weights, out, shape});
}

template <class T>
void attend_backward(cudaStream_t stream, T const* qkv, T const* weights, T const* d_out, T* d_scores, T* d_qkv,
                     AttentionShape shape) {
  std::size_t const places = shape.sequences * shape.heads * shape.length;
  each(stream, places, QueryGradient<T>{qkv, weights, d_out, d_scores, d_qkv, shape});
  each(stream, places, KeyGradient<T>{qkv, weights, d_out, d_scores, d_qkv, shape});
}

#define TRAIN_INSTANTIATE(T)                                            \
  template void attend(cudaStream_t, T const*, T*, T*, AttentionShape); \
  template void attend_backward(cudaStream_t, T const*, T const*, T const*, T*, T*, AttentionShape);
TRAIN_FOR_TYPES(TRAIN_INSTANTIATE)
#undef TRAIN_INSTANTIATE

}  // namespace train::device
