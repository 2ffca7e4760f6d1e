#include "src/runtime/cpu/rails/rails.hpp"

#include <algorithm>

#include "src/base/core/text.hpp"
#include "src/runtime/comm/node_map.hpp"
#include "src/runtime/cpu/node/alarm.hpp"

namespace cxxrun::host {
namespace {

constexpr std::size_t kCacheLine = 64;                      // parts begin at cache lines
constexpr std::size_t kStarBytes = std::size_t{64} << 10U;  // a broadcast up to this size goes to all nodes directly

wire::Farewell farewell_for(std::exception_ptr const& why, RailPeer const& me) {
  auto const facts = facts_of(why, rank_name(me.rank, me.host));
  auto const what = facts.peer ? wire::Farewell::What::peer_failure : wire::Farewell::What::failure;
  return {what, facts.why, facts.rank, facts.host, facts.error};
}

Links links_for(RailConfig const& config) {
  Links links(config.peers.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    links[i].node = static_cast<int>(i);
    links[i].rank = config.peers[i].rank;
    links[i].host = config.peers[i].host;
    links[i].alone = config.peers[i].alone;
  }
  return links;
}

}  // namespace

Rails::Rails(RailConfig config, RailListener listener, LocalPeers& local_peers, Patience const& patience)
    : config_(std::move(config)),
      local_peers_(local_peers),
      links_(links_for(config_)),
      flows_(links_.size()),
      exchange_(links_, config_.node, me().rank, config_.generation) {
  try {
    connect_rails(config_, std::move(listener), local_peers, patience, links_);
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
}

Rails::~Rails() {
  send_farewell(links_, [] { return wire::Farewell{}; });
}

/// Starts an empty plan for `call`.
void Rails::begin(comm::Call const& call) {
  std::fill(flows_.begin(), flows_.end(), Flow{});
  plan_ = Plan{};
  plan_.call = call;
  plan_.flows = &flows_;
}

void Rails::all_reduce(comm::Call const& call, std::byte* data, std::size_t count, Patience const& patience,
                       std::byte const* sums) {
  begin_reduction(call);
  std::size_t const element = size_of(call.type);
  auto const part = [&](auto* of, std::size_t size, std::size_t node) {
    auto const range = comm::part_of(count, static_cast<int>(node), nodes(), kCacheLine / element);
    return std::span(of + range.first * size, range.count * size);
  };
  auto const contribution = [&](std::size_t node) {
    return sums != nullptr ? part(sums, sizeof(float), node) : std::span<std::byte const>(part(data, element, node));
  };
  auto const me = static_cast<std::size_t>(config_.node);
  auto const mine = part(data, element, me);
  for (std::size_t node = 0; node < flows_.size(); ++node) {
    flows_[node] = {contribution(node), mine, contribution(me).size(), part(data, element, node)};
  }
  plan_.own = contribution(me).data();
  plan_.reduced = mine.data();
  plan_.part = contribution(me).size();
  plan_.widened = sums != nullptr;
  plan_.round = true;
  exchange_.run(plan_, local_peers_, patience);
}

void Rails::reduce_scatter(comm::Call const& call, std::span<std::byte const* const> parts, std::byte* out,
                           std::size_t count, Patience const& patience, bool sums) {
  begin_reduction(call);
  std::size_t const size = count * (sums ? sizeof(float) : size_of(call.type));
  for (std::size_t node = 0; node < flows_.size(); ++node) {
    flows_[node] = {{parts[node], size}, {}, size, {}};
  }
  plan_.own = parts[static_cast<std::size_t>(config_.node)];
  plan_.reduced = out;
  plan_.part = size;
  plan_.widened = sums;
  exchange_.run(plan_, local_peers_, patience);
}

void Rails::exchange(comm::Call const& call, std::span<std::span<std::byte const> const> sends,
                     std::span<std::span<std::byte> const> receives, Patience const& patience) {
  begin(call);
  for (std::size_t node = 0; node < flows_.size(); ++node) {
    flows_[node] = {sends[node], {}, 0, receives[node]};
  }
  exchange_.run(plan_, local_peers_, patience);
}

// Small data: the root sends to all nodes. Large data: a chain, in which every node passes on what it has received so
// far, so every link carries the data once.
void Rails::broadcast(comm::Call const& call, std::span<std::byte> data, int root_node, Patience const& patience) {
  begin(call);
  int const behind = (config_.node - root_node + nodes()) % nodes();
  bool const star = data.size() <= kStarBytes || nodes() == 2;
  for (int node = 0; node < nodes(); ++node) {
    Flow& flow = flows_[static_cast<std::size_t>(node)];
    int const theirs = (node - root_node + nodes()) % nodes();
    if (star ? behind == 0 : theirs == behind + 1) {
      flow.result = data;
    }
    if (star ? theirs == 0 : theirs == behind - 1) {
      flow.place = data;
      plan_.relayed_from = star ? -1 : node;
    }
  }
  plan_.distance = star ? 0 : std::max(behind - 1, 0);
  exchange_.run(plan_, local_peers_, patience);
}

Trouble Rails::trouble() noexcept {
  Trouble worst = Trouble::none;
  for (Link const& link : links_) {
    worst = link.control ? std::max(worst, peek_trouble(link)) : worst;
  }
  return worst;
}

void Rails::throw_farewells(Patience const& patience) {
  for (Link& link : links_) {
    if (link.control) {
      read_farewell(link, config_.generation, patience);
    }
  }
  throw_first_end([](PeerFailure::Why why) { return why != PeerFailure::Why::left; }, patience);
}

void Rails::throw_trouble(Patience const& patience) {
  throw_farewells(patience);
  throw_first_end([](PeerFailure::Why) { return true; }, patience);
}

/// Throws the failure of the first link whose end satisfies `so`.
template <class So>
void Rails::throw_first_end(So const& so, Patience const& patience) {
  for (Link const& link : links_) {
    if (link.ended && so(*link.ended)) {
      throw failure_of(link, *link.ended, config_.generation, patience);
    }
  }
}

void Rails::fail(std::exception_ptr const& why) noexcept {
  send_farewell(links_, [&] { return farewell_for(why, me()); });
}

}  // namespace cxxrun::host
