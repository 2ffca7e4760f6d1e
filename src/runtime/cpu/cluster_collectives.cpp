#include "src/runtime/cpu/cluster_collectives.hpp"

#include <initializer_list>
#include <numeric>

namespace cxxrun::host {

using comm::Call;
using comm::Kind;

namespace {

constexpr std::size_t kScratchBytes = std::size_t{16} << 20;

/// Bytes of each of `blocks` blocks that fit into the scratch memory together.
std::size_t chunk_bytes(std::size_t blocks) {
  return std::max(kScratchBytes / blocks / kLine * kLine, kLine);
}

std::size_t product(std::initializer_list<int> factors) {
  return std::accumulate(factors.begin(), factors.end(), std::size_t{1},
                         [](std::size_t so_far, int factor) { return so_far * static_cast<std::size_t>(factor); });
}

}  // namespace

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

/// The first rank of each node reduces the inputs of its node, reduces with the other nodes over the first rail, and
/// publishes the result in its slot.
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

/// The data goes from the root's slot to its node, over the first rail to the first ranks of the other nodes, and
/// through their slots to the others.
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

/// Each rank reduces its slice within the node, its rail reduces that slice over the nodes, then all ranks collect the
/// slices.
void ClusterCollectives::all_reduce(Call const& call, Patience const& patience) {
  reduce_slices(call, patience);
  if (rails_ != nullptr) {
    auto const mine = slice(call, map_.index);
    rails_->all_reduce(call, out_of(call) + mine.offset, mine.bytes / size_of(call.type), on_rail(patience),
                       widens(call) ? send_.data() : nullptr);
  }
  take_slices(call, patience);
}

/// Reduces this rank's slice of all `in` buffers of the node into `out`, or as f32 into scratch memory. No other rank
/// reads that slice of this rank's `in`, so `out` may be the same buffer.
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

/// Copies the slices of `out` from the ranks that carry them.
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

/// First within the root's node, then slice by slice over the rails; the other nodes then collect the slices.
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

// ---- all_gather: first among the ranks of the node, then each rail brings the parts that its partners carry

/// After the node's own parts are there, each rail exchanges the parts that its ranks carry, and the node collects
/// them.
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

// ---- reduce_scatter and all_to_all. Every rank gets different data, so what the rails carry is first gathered in this
// rank's scratch memory, chunk by chunk. All nodes cut the same chunks.

void ClusterCollectives::reduce_scatter(Call const& call, Patience const& patience) {
  std::size_t const most = chunk_bytes(map_.nodes.size());
  Chunk chunk{.part = call.count * size_of(call.type), .begins = true};
  for (; chunk.first < chunk.part; chunk.first += chunk.bytes) {
    chunk.bytes = std::min(most, chunk.part - chunk.first);
    for (chunk.round = 0; chunk.round < rounds_; ++chunk.round) {
      reduce_parts(call, chunk, patience);
      chunk.begins = false;
      if (rails_ != nullptr) {
        scatter_parts(call, chunk, patience);
      }
      if (chunk.round > 0) {
        hand_over(call, chunk, patience);
      }
    }
  }
  exchange_.meet(patience);
}

/// Reduces, within the node, the parts of the ranks that this rank's partners carry, one per node.
void ClusterCollectives::reduce_parts(Call const& call, Chunk const& chunk, Patience const& patience) {
  std::size_t const bytes = static_cast<std::size_t>(map_.world) * chunk.part;
  bool const in_place =
      may_read_in_place(call.in, bytes, call.out, chunk.part, static_cast<std::size_t>(map_.rank) * chunk.part);
  void const* const offered = in_place ? call.in : nullptr;
  auto const rails = static_cast<std::size_t>(map_.rails);
  auto const part_at = [&](int, std::size_t p) {
    int const rank = carried(static_cast<int>(p / rails), static_cast<int>(p % rails), chunk.round);
    return rank < 0 ? ByteRange{} : ByteRange{static_cast<std::size_t>(rank) * chunk.part + chunk.first, chunk.bytes};
  };
  Shown const shown{Buffer::in,  call.in, exchange_.in_arena(offered, bytes), map_.nodes.size() * rails,
                    chunk.bytes, part_at};
  std::size_t const each = chunk.bytes * width(call);
  std::byte* const to = send_.at_least(map_.nodes.size() * each);
  exchange_.show(
      shown, false, patience, [&] { meet_or_enter(call, chunk, {.in = offered, .in_bytes = bytes}, patience); },
      [&](std::size_t at, auto const& view) {
        for (std::size_t node = 0; map_.on_rail() && node < map_.nodes.size(); ++node) {
          fault_point(FaultPoint::reduce);
          std::size_t const p = node * rails + static_cast<std::size_t>(map_.index);
          reduce(call, view, p, to + node * each + at * width(call));
        }
      });
}

void ClusterCollectives::scatter_parts(Call const& call, Chunk const& chunk, Patience const& patience) {
  for (std::size_t node = 0; node < parts_.size(); ++node) {
    parts_[node] = send_.data() + node * chunk.bytes * width(call);  // a part that no rank takes is sent as well
  }
  std::byte* const to = chunk.round == 0 ? out_of(call) + chunk.first : receive_.at_least(chunk.bytes);
  rails_->reduce_scatter(call, parts_, to, chunk.bytes / size_of(call.type), on_rail(patience), widens(call));
}

/// Gives ranks beyond the rails their parts, from their carriers.
void ClusterCollectives::hand_over(Call const& call, Chunk const& chunk, Patience const& patience) {
  auto const part_at = [&](int j, std::size_t) {
    return ByteRange{0, carried(map_.node, j, chunk.round) < 0 ? 0 : chunk.bytes};
  };
  Shown const shown{Buffer::scratch, receive_.data(), false, 1, chunk.bytes, part_at};
  exchange_.show(
      shown, false, patience, [&] { exchange_.meet(patience); },
      [&](std::size_t at, auto const& view) {
        if (map_.index / map_.rails == chunk.round) {
          fault_point(FaultPoint::copy_out);
          copy_bytes(out_of(call) + chunk.first + at, view(map_.index % map_.rails, 0));
        }
      });
}

// ---- all_to_all. A block is the data of one rank for one other. Rail i carries the blocks of the ranks it carries,
// for all ranks of the other node; per node they are ordered by round and by the index of the receiver there.

void ClusterCollectives::all_to_all(Call const& call, Patience const& patience) {
  auto const blocks = product({nodes(), rounds_, largest_node_});
  std::size_t const most = chunk_bytes(blocks);
  Chunk chunk{.part = call.count * size_of(call.type), .begins = true};
  for (; chunk.first < chunk.part; chunk.first += chunk.bytes) {
    chunk.bytes = std::min(most, chunk.part - chunk.first);
    send_.at_least(blocks * chunk.bytes);
    receive_.at_least(blocks * chunk.bytes);
    pack_blocks(call, chunk, patience);
    chunk.begins = false;
    if (rails_ != nullptr) {
      exchange_blocks(call, chunk, patience);
    }
    // Round by round: all parts together may be more than fit into a piece of staging memory.
    for (chunk.round = 0; chunk.round < rounds_; ++chunk.round) {
      unpack_blocks(call, chunk, patience);
    }
  }
  exchange_.meet(patience);
}

std::byte* ClusterCollectives::blocks_for(Scratch& scratch, int node, std::size_t bytes) const {
  return scratch.data() + product({node, rounds_, largest_node_}) * bytes;
}

void ClusterCollectives::pack_blocks(Call const& call, Chunk const& chunk, Patience const& patience) {
  auto const world = static_cast<std::size_t>(map_.world);
  auto const part_at = [&](int, std::size_t p) { return ByteRange{p * chunk.part + chunk.first, chunk.bytes}; };
  Shown const shown{Buffer::in, call.in, exchange_.in_arena(call.in, world * chunk.part), world, chunk.bytes, part_at};
  auto const pack = [&](std::size_t at, auto const& view, int node, int round) {
    int const source = map_.index + round * map_.rails;
    for (int y = 0; source < group_.size() && node != map_.node && y < size_of_node(node); ++y) {
      auto const block = product({round, size_of_node(node)}) + static_cast<std::size_t>(y);
      copy_bytes(blocks_for(send_, node, chunk.bytes) + block * chunk.bytes + at,
                 view(source, static_cast<std::size_t>(map_.partner(node, y))));
    }
  };
  exchange_.show(
      shown, false, patience,
      [&] { meet_or_enter(call, chunk, {.in = call.in, .in_bytes = world * chunk.part}, patience); },
      [&](std::size_t at, auto const& view) {
        for (int j = 0; j < group_.size(); ++j) {
          copy_bytes(out_of(call) + static_cast<std::size_t>(group_.rank(j)) * chunk.part + chunk.first + at,
                     view(j, static_cast<std::size_t>(map_.rank)));
        }
        for (int node = 0; map_.on_rail() && node < nodes(); ++node) {
          for (int round = 0; round < rounds_; ++round) {
            pack(at, view, node, round);
          }
        }
      });
}

void ClusterCollectives::exchange_blocks(Call const& call, Chunk const& chunk, Patience const& patience) {
  auto const carries = [&](int node) { return (size_of_node(node) - map_.index + map_.rails - 1) / map_.rails; };
  for (int node = 0; node < nodes(); ++node) {
    auto const i = static_cast<std::size_t>(node);
    auto const sent = product({carries(map_.node), size_of_node(node)});
    auto const received = product({carries(node), group_.size()});
    sends_[i] = {blocks_for(send_, node, chunk.bytes), sent * chunk.bytes};
    receives_[i] = {blocks_for(receive_, node, chunk.bytes), received * chunk.bytes};
  }
  rails_->exchange(call, sends_, receives_, on_rail(patience));
}

/// The blocks of the ranks that are carried in the chunk's round.
void ClusterCollectives::unpack_blocks(Call const& call, Chunk const& chunk, Patience const& patience) {
  auto const ranks_here = static_cast<std::size_t>(group_.size());
  auto const source_of = [&](int rail, std::size_t p) {  // the rank whose block is part p of that rail's memory
    int const node = static_cast<int>(p / ranks_here);
    return node == map_.node ? -1 : carried(node, rail, chunk.round);
  };
  auto const part_at = [&](int j, std::size_t p) {
    if (source_of(j, p) < 0) {
      return ByteRange{};
    }
    auto const begin = product({static_cast<int>(p / ranks_here), rounds_, largest_node_});
    return ByteRange{(begin + product({chunk.round, group_.size()}) + p % ranks_here) * chunk.bytes, chunk.bytes};
  };
  std::size_t const parts = map_.nodes.size() * ranks_here;
  Shown const shown{Buffer::scratch, receive_.data(), false, parts, chunk.bytes, part_at};
  exchange_.show(
      shown, false, patience, [&] { exchange_.meet(patience); },
      [&](std::size_t at, auto const& view) {
        fault_point(FaultPoint::copy_out);
        for (int j = 0; j < map_.rails; ++j) {
          for (auto p = static_cast<std::size_t>(map_.index); p < parts; p += ranks_here) {
            if (int const source = source_of(j, p); source >= 0) {
              copy_bytes(out_of(call) + static_cast<std::size_t>(source) * chunk.part + chunk.first + at, view(j, p));
            }
          }
        }
      });
}

}  // namespace cxxrun::host
