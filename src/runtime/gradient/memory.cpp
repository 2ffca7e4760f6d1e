#include "src/runtime/gradient/memory.hpp"

#include <array>
#include <cstring>

#include "src/runtime/comm/element_formats.hpp"

namespace cxxrun::gradient {
namespace {

void move_gradients(std::byte* to, Layout const& next, std::byte const* from, Layout const& layout) {
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    if (layout.places[i].bytes > 0) {
      std::memcpy(to + next.places[i].offset, from + layout.places[i].offset, layout.places[i].bytes);
    }
  }
}

template <class Format>
void multiply_as(void* data, std::size_t count, double factor) {
  auto* const values = static_cast<typename Format::Stored*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = comm::multiplied<Format>(values[i], factor);
  }
}

template <class Format>
double sum_of_squares_as(void const* data, std::size_t count) {
  auto const* const values = static_cast<typename Format::Stored const*>(data);
  std::array<double, 8> sums{};  // independent sums, so that additions do not wait for each other
  std::size_t i = 0;
  for (; i + sums.size() <= count; i += sums.size()) {
    for (std::size_t k = 0; k < sums.size(); ++k) {
      double const value = Format::wide(values[i + k]);
      sums[k] += value * value;
    }
  }
  for (; i < count; ++i) {
    double const value = Format::wide(values[i]);
    sums[0] += value * value;
  }
  double total = 0;
  for (double const sum : sums) {
    total += sum;
  }
  return total;
}

template <class Body>
void with_format(DType type, Body const& body) {
  switch (type) {
    case DType::f32: return body(comm::F32{});
    case DType::f64: return body(comm::F64{});
    case DType::f16: return body(comm::F16{});
    case DType::bf16: return body(comm::BF16{});
    default: return;  // gradients have no other type
  }
}

}  // namespace

void multiply(DType type, void* data, std::size_t count, double factor) {
  if (factor != 0) {
    with_format(type, [&]<class Format>(Format) { multiply_as<Format>(data, count, factor); });
  } else if (count > 0) {
    std::memset(data, 0, count * size_of(type));
  }
}

double sum_of_squares(DType type, void const* data, std::size_t count) {
  double sum = 0;
  with_format(type, [&]<class Format>(Format) { sum = sum_of_squares_as<Format>(data, count); });
  return sum;
}

void Memory::multiply(Piece const& piece, double factor) const {
  if (on_device()) {
    device_->multiply(piece.type, at(piece.offset), piece.count, factor);
  } else {
    gradient::multiply(piece.type, at(piece.offset), piece.count, factor);
  }
}

void Memory::queue_squares(std::span<Piece const> pieces) const {
  double const zero = 0;
  put(bytes_, &zero, sizeof zero);
  for (auto const& [type, offset, count] : pieces) {
    device_->add_squares(type, at(offset), count, squares());
  }
}

double Memory::sum_of_squares(std::span<Piece const> pieces) const {
  double sum = 0;
  if (!on_device()) {
    for (auto const& [type, offset, count] : pieces) {
      sum += gradient::sum_of_squares(type, at(offset), count);
    }
    return sum;
  }
  queue_squares(pieces);
  device_->wait(get(&sum, bytes_, sizeof sum));
  return sum;
}

void Memory::rearrange(Layout const& from, Layout const& to) const {
  if (!on_device()) {
    std::vector<std::byte> const before(data_, data_ + bytes_);
    std::memset(data_, 0, bytes_);
    return move_gradients(data_, to, before.data(), from);
  }
  for (auto const& move : plan_moves(from, to, bytes_ + kScratch, room(bytes_))) {
    device_->copy(at(move.to), at(move.from), move.bytes);
  }
  device_->wait(device_->mark());
}

}  // namespace cxxrun::gradient
