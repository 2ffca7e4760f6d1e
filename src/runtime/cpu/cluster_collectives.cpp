#include "src/runtime/cpu/cluster_collectives.hpp"

namespace cxxrun::host {

using comm::Call;
using comm::Kind;

ClusterCollectives::ClusterCollectives(NodeExchange& exchange, comm::NodeMap const& map, Rails* rails,
                                       std::chrono::milliseconds grace)
    : exchange_(exchange), group_(exchange.group()), map_(map), rails_(rails), grace_(grace) {
  for (auto const& ranks : map_.nodes) {
    largest_node_ = std::max(largest_node_, static_cast<int>(ranks.size()));
  }
  rounds_ = (largest_node_ + map_.rails - 1) / map_.rails;
  parts_.resize(map_.nodes.size());
  sends_.resize(map_.nodes.size());
  receives_.resize(map_.nodes.size());
}

ByteRange ClusterCollectives::slice(Call const& call, int rail) const {
  if (rail >= map_.rails) {
    return {};
  }
  auto const range = comm::part_of(call.count, rail, map_.rails, grain(call.type));
  return {range.first * size_of(call.type), range.count * size_of(call.type)};
}

std::size_t ClusterCollectives::longest_slice(Call const& call) const {
  std::size_t longest = 0;
  for (int rail = 0; rail < map_.rails; ++rail) {
    longest = std::max(longest, slice(call, rail).bytes);
  }
  return longest;
}

void ClusterCollectives::run(Call const& call, Patience const& patience) {
  std::size_t const bytes = comm::in_bytes(call, map_.world);
  if (bytes == 0) {
    exchange_.enter(call, {}, patience);
    agree(call, patience);
    return;
  }
  if (bytes <= kInlineBytes && call.kind == Kind::all_reduce) {
    return all_reduce_small(call, bytes, patience);
  }
  if (bytes <= kInlineBytes && call.kind == Kind::broadcast) {
    return broadcast_small(call, bytes, patience);
  }
  switch (call.kind) {
    case Kind::all_reduce: return all_reduce(call, patience);
    case Kind::reduce_scatter: return reduce_scatter(call, patience);
    case Kind::all_gather: return all_gather(call, patience);
    case Kind::broadcast: return broadcast(call, patience);
    case Kind::all_to_all: return all_to_all(call, patience);
    case Kind::barrier:
    case Kind::split:
    case Kind::allocate: return;
  }
}

void ClusterCollectives::agree(Call const& call, Patience const& patience) {
  if (map_.index == 0) {
    std::fill(sends_.begin(), sends_.end(), std::span<std::byte const>());
    std::fill(receives_.begin(), receives_.end(), std::span<std::byte>());
    rails_->exchange(call, sends_, receives_, on_rail(patience));
  }
  exchange_.meet(patience);
}

// ---- small buffers: in the slots, and over the first rail

void ClusterCollectives::all_reduce_small(Call const& call, std::size_t bytes, Patience const& patience) {
  copy_bytes(group_.outbox(), in_of(call), bytes);
  exchange_.enter(call, {}, patience);
  if (map_.index == 0) {
    fault_point(FaultPoint::reduce);
    std::byte* const sums = widens(call) ? send_.at_least(bytes * width(call)) : nullptr;
    auto const view = [&](int j, std::size_t) { return std::span(group_.inbox(j), bytes); };
    reduce(call, view, 0, sums != nullptr ? sums : out_of(call));
    rails_->all_reduce(call, out_of(call), call.count, on_rail(patience), sums);
    copy_bytes(group_.outbox(), out_of(call), bytes);
  }
  fault_point(FaultPoint::meet);
  group_.publish(group_.published(group_.index()), patience);
  if (map_.index != 0) {
    copy_bytes(out_of(call), group_.inbox(0), bytes);
  }
}

void ClusterCollectives::broadcast_small(Call const& call, std::size_t bytes, Patience const& patience) {
  int const root_node = map_.node_of[static_cast<std::size_t>(call.root)];
  if (call.root == map_.rank) {
    copy_bytes(group_.outbox(), in_of(call), bytes);
  }
  exchange_.enter(call, {}, patience);
  if (map_.node == root_node) {
    copy_bytes(out_of(call), group_.inbox(map_.index_of[static_cast<std::size_t>(call.root)]), bytes);
  }
  if (map_.index == 0) {
    rails_->broadcast(call, {out_of(call), bytes}, root_node, on_rail(patience));
    copy_bytes(group_.outbox(), out_of(call), bytes);
  }
  if (map_.node != root_node) {
    fault_point(FaultPoint::meet);
    group_.publish(group_.published(group_.index()), patience);
    copy_bytes(out_of(call), group_.inbox(0), bytes);
  }
}

// ---- slices

void ClusterCollectives::all_reduce(Call const& call, Patience const& patience) {
  reduce_slices(call, patience);
  if (rails_ != nullptr) {
    auto const mine = slice(call, map_.index);
    rails_->all_reduce(call, out_of(call) + mine.offset, mine.bytes / size_of(call.type), on_rail(patience),
                       widens(call) ? send_.data() : nullptr);
  }
  take_slices(call, patience);
}

/// Of `in`, this rank's slice of all buffers of the node, reduced into `out`, or into memory for it as f32. Nobody else
/// reads that slice of this rank's `in`, so `out` may be the same.
void ClusterCollectives::reduce_slices(Call const& call, Patience const& patience) {
  std::size_t const bytes = call.count * size_of(call.type);
  auto const part = [&](int, std::size_t p) { return slice(call, static_cast<int>(p)); };
  Shown const shown{
      Buffer::in,          call.in, exchange_.in_arena(call.in, bytes), static_cast<std::size_t>(map_.rails),
      longest_slice(call), part};
  auto const own = slice(call, map_.index);
  std::byte* const to = widens(call) ? send_.at_least(own.bytes * width(call)) : out_of(call) + own.offset;
  exchange_.show(
      shown, false, patience,
      [&] {
        exchange_.enter(call, {call.in, bytes, call.out, bytes}, patience);
      },
      [&](std::size_t at, auto const& view) {
        if (!map_.on_rail()) {
          return;
        }
        fault_point(FaultPoint::reduce);
        reduce(call, view, static_cast<std::size_t>(map_.index), to + at * width(call));
      });
}

/// The slices of `out` from those who carry them.
void ClusterCollectives::take_slices(Call const& call, Patience const& patience) {
  auto const part = [&](int j, std::size_t) { return slice(call, j); };
  Shown const shown{Buffer::out,         call.out, exchange_.direct(map_.index, Buffer::out) != nullptr, 1,
                    longest_slice(call), part};
  exchange_.show(
      shown, true, patience, [&] { exchange_.meet(patience); },
      [&](std::size_t at, auto const& view) {
        fault_point(FaultPoint::copy_out);
        for (int j = 0; j < map_.rails; ++j) {
          if (j != map_.index) {
            copy_bytes(out_of(call) + slice(call, j).offset + at, view(j, 0));
          }
        }
      });
}

void ClusterCollectives::broadcast(Call const& call, Patience const& patience) {
  std::size_t const bytes = call.count * size_of(call.type);
  int const root_node = map_.node_of[static_cast<std::size_t>(call.root)];
  NodeExchange::Offered const offered{call.in, bytes, call.out, bytes};
  if (map_.node == root_node) {
    exchange_.broadcast(call, map_.index_of[static_cast<std::size_t>(call.root)], offered, patience);
  } else {
    exchange_.enter(call, offered, patience);
  }
  if (rails_ != nullptr) {
    auto const mine = slice(call, map_.index);
    rails_->broadcast(call, {out_of(call) + mine.offset, mine.bytes}, root_node, on_rail(patience));
  }
  if (map_.node != root_node) {
    take_slices(call, patience);
  }
}

// ---- all_gather: first the node's own ranks, then each rail brings what its partners carry

void ClusterCollectives::all_gather(Call const& call, Patience const& patience) {
  std::size_t const part = call.count * size_of(call.type);
  gather_node(call, patience);
  for (int round = 0; round < rounds_ && rails_ != nullptr; ++round) {
    for (int node = 0; node < nodes(); ++node) {
      auto const i = static_cast<std::size_t>(node);
      int const mine = carried(map_.node, map_.index, round);
      int const theirs = carried(node, map_.index, round);
      sends_[i] = {out_of(call) + static_cast<std::size_t>(std::max(mine, 0)) * part, mine < 0 ? 0 : part};
      receives_[i] = {out_of(call) + static_cast<std::size_t>(std::max(theirs, 0)) * part, theirs < 0 ? 0 : part};
    }
    rails_->exchange(call, sends_, receives_, on_rail(patience));
  }
  take_other_nodes(call, patience);
}

void ClusterCollectives::gather_node(Call const& call, Patience const& patience) {
  std::size_t const part = call.count * size_of(call.type);
  auto const world = static_cast<std::size_t>(map_.world);
  bool const in_place =
      may_read_in_place(call.in, part, call.out, world * part, static_cast<std::size_t>(map_.rank) * part);
  NodeExchange::Offered const offered{in_place ? call.in : nullptr, part, call.out, world * part};
  auto const part_at = [part](int, std::size_t) { return ByteRange{0, part}; };
  Shown const shown{Buffer::in, call.in, exchange_.in_arena(offered.in, part), 1, part, part_at};
  exchange_.show(
      shown, false, patience, [&] { exchange_.enter(call, offered, patience); },
      [&](std::size_t at, auto const& view) {
        for (int j = 0; j < group_.size(); ++j) {
          copy_bytes(out_of(call) + static_cast<std::size_t>(group_.rank(j)) * part + at, view(j, 0));
        }
      });
}

void ClusterCollectives::take_other_nodes(Call const& call, Patience const& patience) {
  std::size_t const part = call.count * size_of(call.type);
  auto const rounds = static_cast<std::size_t>(rounds_);
  auto const part_at = [&](int j, std::size_t p) {
    int const node = static_cast<int>(p / rounds);
    int const rank = node == map_.node ? -1 : carried(node, j, static_cast<int>(p % rounds));
    return rank < 0 ? ByteRange{} : ByteRange{static_cast<std::size_t>(rank) * part, part};
  };
  std::size_t const parts = map_.nodes.size() * rounds;
  Shown const shown{Buffer::out, call.out, exchange_.direct(map_.index, Buffer::out) != nullptr, parts, part, part_at};
  exchange_.show(
      shown, true, patience, [&] { exchange_.meet(patience); },
      [&](std::size_t at, auto const& view) {
        fault_point(FaultPoint::copy_out);
        for (int j = 0; j < group_.size(); ++j) {
          for (std::size_t p = 0; j != map_.index && p < parts; ++p) {
            copy_bytes(out_of(call) + part_at(j, p).offset + at, view(j, p));
          }
        }
      });
}

}  // namespace cxxrun::host
