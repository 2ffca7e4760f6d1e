#include "src/runtime/cpu/node/node_exchange.hpp"

#include <bit>

namespace cxxrun::host {
NodeExchange::NodeExchange(NodeGroup& group)
    : group_(group), in_(static_cast<std::size_t>(group.size())), out_(in_.size()) {
  inputs_.reserve(in_.size());
}

void NodeExchange::enter(comm::Call const& call, Offered const& offered, Patience const& patience) {
  Published mine{.call = comm::fields_of(call)};
  mine.in = offset_of(offered.in, offered.in_bytes);
  mine.out = offset_of(offered.out, offered.out_bytes);
  fault_point(FaultPoint::enter);
  group_.publish(mine, patience);
  compare(patience);
  auto const find = [&](std::uint64_t offset, std::size_t bytes, int index) -> std::byte* {
    if (offset == Published::kElsewhere) {
      return nullptr;
    }
    std::byte* const data = group_.segment().at(offset, bytes);
    if (data == nullptr) {
      group_.raise(group_.bad_publication(index));
      group_.throw_alarm(patience);
    }
    return data;
  };
  for (int j = 0; j < group_.size(); ++j) {
    in_[static_cast<std::size_t>(j)] = find(group_.published(j).in, offered.in_bytes, j);
    out_[static_cast<std::size_t>(j)] = find(group_.published(j).out, offered.out_bytes, j);
  }
}

/// All ranks compare all calls with the first rank's, so they all find the same difference.
void NodeExchange::compare(Patience const& patience) {
  using Bits = std::array<std::uint64_t, 3>;
  comm::CallFields const& first = group_.published(0).call;
  for (int j = 1; j < group_.size(); ++j) {
    if (std::bit_cast<Bits>(first) == std::bit_cast<Bits>(group_.published(j).call)) {
      continue;
    }
    if (auto why = comm::disagreement(group_.number_of(0), comm::call_of(first), group_.number_of(j),
                                      comm::call_of(group_.published(j).call))) {
      group_.raise(facts_of(fail(Errc::usage, std::move(*why))));
      group_.throw_alarm(patience);
    }
  }
}

void NodeExchange::broadcast(comm::Call const& call, int root, Offered const& offered, Patience const& patience) {
  std::size_t const bytes = call.count * size_of(call.type);
  auto const part_at = [&](int j, std::size_t) { return ByteRange{0, j == root ? bytes : 0}; };
  show(
      Shown{Buffer::in, call.in, in_arena(call.in, bytes), 1, bytes, part_at}, true, patience,
      [&] { enter(call, offered, patience); },
      [&](std::size_t at, auto const& view) {
        if (group_.index() != root) {
          fault_point(FaultPoint::copy_out);
          copy_bytes(out_of(call) + at, view(root, 0));
        }
      });
}

}  // namespace cxxrun::host
