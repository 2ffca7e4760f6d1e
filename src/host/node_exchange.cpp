#include "src/host/node_exchange.hpp"

#include <bit>
#include <string>

namespace cxxrun::host {
namespace {

comm::Call call_of(Published const& published) {
  comm::Call call;
  call.kind = published.kind;
  call.type = published.type;
  call.op = published.op;
  call.wire = published.wire;
  call.root = published.root;
  call.count = published.count;
  call.scale = published.scale;
  return call;
}

bool equal(Published const& a, Published const& b) {
  return a.kind == b.kind && a.type == b.type && a.op == b.op && a.wire == b.wire && a.root == b.root &&
         a.count == b.count && std::bit_cast<std::uint32_t>(a.scale) == std::bit_cast<std::uint32_t>(b.scale);
}

}  // namespace

NodeExchange::NodeExchange(NodeGroup& group)
    : group_(group), in_(static_cast<std::size_t>(group.size())), out_(static_cast<std::size_t>(group.size())) {}

std::uint64_t NodeExchange::offset_of(void const* data, std::size_t bytes) const {
  return group_.size() == 1 || data == nullptr || bytes == 0
             ? Published::kElsewhere
             : group_.segment().offset_of(data, bytes).value_or(Published::kElsewhere);
}

std::byte* NodeExchange::direct(int index, Buffer which) const {
  auto const i = static_cast<std::size_t>(index);
  return which == Buffer::in ? in_[i] : which == Buffer::out ? out_[i] : nullptr;
}

void NodeExchange::enter(comm::Call const& call, Offered const& offered, Patience const& patience) {
  Published mine{.kind = call.kind,
                 .type = call.type,
                 .op = call.op,
                 .wire = call.wire,
                 .root = call.root,
                 .count = call.count,
                 .scale = call.scale};
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
      group_.raise(group_.nonsense(index));
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
  Published const& first = group_.published(0);
  for (int j = 1; j < group_.size(); ++j) {
    if (equal(first, group_.published(j))) {
      continue;
    }
    if (auto why = comm::disagreement(group_.rank(0), call_of(first), group_.rank(j), call_of(group_.published(j)))) {
      group_.raise({.peer = false, .host = {}, .error = fail(Errc::usage, std::move(*why))});
      group_.throw_alarm(patience);
    }
  }
}

void NodeExchange::meet(Patience const& patience) {
  fault_point(FaultPoint::meet);
  group_.meet(patience);
}

}  // namespace cxxrun::host
