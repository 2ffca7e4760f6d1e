#include "src/runtime/cpu/node/shared_collectives.hpp"

namespace cxxrun::host {

using comm::Call;
using comm::Kind;

SharedCollectives::SharedCollectives(NodeExchange& exchange) : exchange_(exchange), group_(exchange.group()) {
  inputs_.reserve(static_cast<std::size_t>(group_.size()));
  outputs_.reserve(static_cast<std::size_t>(group_.size()) + 1);
}

void SharedCollectives::run(Call const& call, Patience const& patience) {
  std::size_t const bytes = comm::in_bytes(call, group_.size());
  if (bytes <= kInlineBytes) {
    run_small(call, bytes, patience);
    return;
  }
  switch (call.kind) {
    case Kind::all_reduce: return all_reduce(call, patience);
    case Kind::reduce_scatter: return reduce_scatter(call, patience);
    case Kind::all_gather: return all_gather(call, patience);
    case Kind::broadcast: return exchange_.broadcast(call, call.root, {.in = call.in, .in_bytes = bytes}, patience);
    case Kind::all_to_all:
      return collect(call, static_cast<std::size_t>(group_.size()), call.in, static_cast<std::size_t>(group_.index()),
                     patience);
    case Kind::barrier:
    case Kind::split:
    case Kind::allocate: return;
  }
}

/// All inputs travel in the slots, so one publication is enough: every rank computes its result from them.
void SharedCollectives::run_small(Call const& call, std::size_t bytes, Patience const& patience) {
  int const n = group_.size();
  std::size_t const part = call.count * size_of(call.type);
  if (call.kind != Kind::broadcast || call.root == group_.index()) {
    copy_bytes(group_.outbox(), in_of(call), bytes);
  }
  exchange_.enter(call, {}, patience);
  auto const mine = static_cast<std::size_t>(group_.index()) * part;
  if (call.kind == Kind::broadcast) {
    copy_bytes(out_of(call), group_.inbox(call.root), bytes);
  } else if (call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter) {
    std::size_t const from = call.kind == Kind::reduce_scatter ? mine : 0;
    auto const view = [&](int j, std::size_t) { return std::span(group_.inbox(j) + from, part); };
    exchange_.reduce(call, view, 0, out_of(call), call.scale);
  } else if (call.kind == Kind::all_gather || call.kind == Kind::all_to_all) {
    for (int j = 0; j < n; ++j) {
      copy_bytes(out_of(call) + static_cast<std::size_t>(j) * part,
                 group_.inbox(j) + (call.kind == Kind::all_to_all ? mine : 0), part);
    }
  }
}

/// In one go if all buffers are in arenas. Otherwise window by window: the next window is copied into another piece
/// while the others still read this one.
void SharedCollectives::all_reduce(Call const& call, Patience const& patience) {
  std::size_t const bytes = call.count * size_of(call.type);
  bool const copies_in = !exchange_.in_arena(call.in, bytes);
  std::size_t const window = window_bytes(1);
  auto const copy_in = [&](std::size_t at) {
    exchange_.next_piece();
    if (copies_in) {
      fault_point(FaultPoint::copy_in);
      stream_bytes(group_.staging(group_.index(), exchange_.piece()), in_of(call) + at, std::min(window, bytes - at));
    }
  };
  copy_in(0);
  exchange_.enter(call, {call.in, bytes, call.out, bytes}, patience);
  bool whole = true;
  for (int j = 0; j < group_.size(); ++j) {
    whole = whole && exchange_.direct(j, Buffer::in) != nullptr && exchange_.direct(j, Buffer::out) != nullptr;
  }
  if (whole) {
    reduce_window(call, {0, bytes}, true);
    exchange_.meet(patience);
    return;
  }
  for (std::size_t at = 0; at < bytes; at += window) {
    ByteRange const now{at, std::min(window, bytes - at)};
    reduce_window(call, now, false);
    std::size_t const piece = exchange_.piece();
    if (at + window < bytes) {
      copy_in(at + window);
    }
    exchange_.meet(patience);
    if (exchange_.direct(group_.index(), Buffer::out) == nullptr) {
      fault_point(FaultPoint::copy_out);
      copy_window_out(call, now, piece);
    }
  }
}

/// Reduces this rank's slice of the window into all outputs that are in arenas. For the other outputs it writes to this
/// rank's staging memory, in place of the slice of its input that only this rank reads.
void SharedCollectives::reduce_window(Call const& call, ByteRange window, bool whole) {
  fault_point(FaultPoint::reduce);
  std::size_t const size = size_of(call.type);
  auto const slice = comm::part_of(window.bytes / size, group_.index(), group_.size(), grain(call.type));
  std::size_t const offset = slice.first * size;
  inputs_.clear();
  outputs_.clear();
  for (int j = 0; j < group_.size(); ++j) {
    std::byte* const in = exchange_.direct(j, Buffer::in);
    std::byte* const out = exchange_.direct(j, Buffer::out);
    inputs_.push_back(in != nullptr ? in + window.offset + offset : group_.staging(j, exchange_.piece()) + offset);
    if (out != nullptr) {
      outputs_.push_back(out + window.offset + offset);
    }
  }
  if (!whole) {
    outputs_.push_back(group_.staging(group_.index(), exchange_.piece()) + offset);
  }
  comm::reduce(call.type, call.op, inputs_, outputs_, slice.count, call.scale);
}

void SharedCollectives::copy_window_out(Call const& call, ByteRange window, std::size_t piece) {
  std::size_t const size = size_of(call.type);
  for (int j = 0; j < group_.size(); ++j) {
    auto const slice = comm::part_of(window.bytes / size, j, group_.size(), grain(call.type));
    copy_bytes(out_of(call) + window.offset + slice.first * size, group_.staging(j, piece) + slice.first * size,
               slice.count * size);
  }
}

/// Shows the local peers `parts` parts of `in`, in place if `offered`, and takes theirs.
template <class Take>
void SharedCollectives::share(Call const& call, std::size_t parts, void const* offered, Patience const& patience,
                              Take const& take) {
  std::size_t const part = call.count * size_of(call.type);
  std::size_t const bytes = parts * part;
  auto const part_at = [part](int, std::size_t p) { return ByteRange{p * part, part}; };
  exchange_.show(
      Shown{Buffer::in, call.in, exchange_.in_arena(offered, bytes), parts, part, part_at}, true, patience,
      [&] { exchange_.enter(call, {.in = offered, .in_bytes = bytes}, patience); }, take);
}

/// The same, and stores part `wanted` of each rank in `out`, one after another.
void SharedCollectives::collect(Call const& call, std::size_t parts, void const* offered, std::size_t wanted,
                                Patience const& patience) {
  std::size_t const part = call.count * size_of(call.type);
  share(call, parts, offered, patience, [&](std::size_t at, auto const& view) {
    fault_point(FaultPoint::copy_out);
    for (int j = 0; j < group_.size(); ++j) {
      copy_bytes(out_of(call) + static_cast<std::size_t>(j) * part + at, view(j, wanted));
    }
  });
}

void SharedCollectives::reduce_scatter(Call const& call, Patience const& patience) {
  auto const n = static_cast<std::size_t>(group_.size());
  auto const me = static_cast<std::size_t>(group_.index());
  std::size_t const part = call.count * size_of(call.type);
  bool const in_place = may_read_in_place(call.in, n * part, call.out, part, me * part);
  share(call, n, in_place ? call.in : nullptr, patience, [&](std::size_t at, auto const& view) {
    fault_point(FaultPoint::reduce);
    exchange_.reduce(call, view, me, out_of(call) + at, call.scale);
  });
}

void SharedCollectives::all_gather(Call const& call, Patience const& patience) {
  auto const n = static_cast<std::size_t>(group_.size());
  auto const me = static_cast<std::size_t>(group_.index());
  std::size_t const part = call.count * size_of(call.type);
  bool const in_place = may_read_in_place(call.in, part, call.out, n * part, me * part);
  collect(call, 1, in_place ? call.in : nullptr, 0, patience);
}

}  // namespace cxxrun::host
