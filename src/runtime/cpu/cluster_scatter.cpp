// reduce_scatter and all_to_all over several nodes: every rank gets something else, so what the rails carry is
// gathered in memory of this rank first, chunk by chunk. Chunks are cut alike on all nodes.
#include <initializer_list>
#include <numeric>

#include "src/runtime/cpu/cluster_collectives.hpp"

namespace cxxrun::host {
namespace {

using comm::Call;

constexpr std::size_t kScratchBytes = std::size_t{16} << 20;

/// Bytes of each of `blocks` blocks that fit the memory together.
std::size_t chunk_bytes(std::size_t blocks) {
  return std::max(kScratchBytes / blocks / kLine * kLine, kLine);
}

std::size_t product(std::initializer_list<int> factors) {
  return std::accumulate(factors.begin(), factors.end(), std::size_t{1},
                         [](std::size_t so_far, int factor) { return so_far * static_cast<std::size_t>(factor); });
}

}  // namespace

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

/// The node's reduction of the parts of all ranks that this rank's partners carry, one per node.
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
    parts_[node] = send_.data() + node * chunk.bytes * width(call);  // what nobody takes is sent all the same
  }
  std::byte* const to = chunk.round == 0 ? out_of(call) + chunk.first : receive_.at_least(chunk.bytes);
  rails_->reduce_scatter(call, parts_, to, chunk.bytes / size_of(call.type), on_rail(patience), widens(call));
}

/// To ranks beyond the rails, from their carriers.
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

// ---- all_to_all. A block is what one rank has for one other. Rail i carries the blocks of the ranks it carries, for
// all ranks of the other node: to each node, by round and by index there.

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
    unpack_blocks(call, chunk, patience);
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

void ClusterCollectives::unpack_blocks(Call const& call, Chunk const& chunk, Patience const& patience) {
  auto const mates = static_cast<std::size_t>(group_.size());
  auto const rounds = static_cast<std::size_t>(rounds_);
  auto const source_of = [&](int rail, std::size_t p) {  // the rank whose block is part p of that rail's memory
    int const node = static_cast<int>(p / mates / rounds);
    return node == map_.node ? -1 : carried(node, rail, static_cast<int>(p / mates % rounds));
  };
  auto const part_at = [&](int j, std::size_t p) {
    if (source_of(j, p) < 0) {
      return ByteRange{};
    }
    auto const begin = product({static_cast<int>(p / mates / rounds), rounds_, largest_node_});
    return ByteRange{(begin + p % (mates * rounds)) * chunk.bytes, chunk.bytes};
  };
  std::size_t const parts = map_.nodes.size() * rounds * mates;
  Shown const shown{Buffer::scratch, receive_.data(), false, parts, chunk.bytes, part_at};
  exchange_.show(
      shown, false, patience, [&] { exchange_.meet(patience); },
      [&](std::size_t at, auto const& view) {
        fault_point(FaultPoint::copy_out);
        for (int j = 0; j < map_.rails; ++j) {
          for (auto p = static_cast<std::size_t>(map_.index); p < parts; p += mates) {
            if (int const source = source_of(j, p); source >= 0) {
              copy_bytes(out_of(call) + static_cast<std::size_t>(source) * chunk.part + chunk.first + at, view(j, p));
            }
          }
        }
      });
}

}  // namespace cxxrun::host
