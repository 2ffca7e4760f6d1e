#include "src/runtime/gradient/memory.hpp"

#include <cstring>

#include "src/runtime/gradient/elements.hpp"

namespace cxxrun::gradient {
namespace {

void move_gradients(std::byte* to, Layout const& next, std::byte const* from, Layout const& layout) {
  for (std::size_t i = 0; i < layout.places.size(); ++i) {
    if (layout.places[i].bytes > 0) {
      std::memcpy(to + next.places[i].offset, from + layout.places[i].offset, layout.places[i].bytes);
    }
  }
}

}  // namespace

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
