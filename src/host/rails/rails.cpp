#include "src/host/rails/rails.hpp"

#include <algorithm>

#include "src/comm/node_map.hpp"
#include "src/core/rank_name.hpp"
#include "src/host/node/alarm.hpp"
#include "src/host/rails/exchange.hpp"
#include "src/host/rails/rail_mesh.hpp"

namespace cxxrun::host {
namespace {

constexpr std::size_t kCacheLine = 64;                      // parts begin at cache lines
constexpr std::size_t kStarBytes = std::size_t{64} << 10U;  // a broadcast up to this size goes to everybody at once

wire::Farewell farewell_for(std::exception_ptr const& why, RailPeer const& me) {
  auto const facts = facts_of(why, rank_name(me.rank, me.host));
  auto const what = facts.peer ? wire::Farewell::What::peer_failure : wire::Farewell::What::failure;
  return {what, facts.why, facts.rank, facts.host, facts.error};
}

}  // namespace

struct Rails::Impl {
  RailConfig config;
  Mates& mates;
  Links links;
  std::vector<Flow> flows;
  Exchange exchange;
  Plan plan;

  static Links links_for(RailConfig const& config) {
    Links links(config.peers.size());
    for (std::size_t i = 0; i < links.size(); ++i) {
      links[i].node = static_cast<int>(i);
      links[i].rank = config.peers[i].rank;
      links[i].host = config.peers[i].host;
    }
    return links;
  }

  Impl(RailConfig given, Mates& others)
      : config(std::move(given)),
        mates(others),
        links(links_for(config)),
        flows(links.size()),
        exchange(links, config.node, config.peers[static_cast<std::size_t>(config.node)].rank, config.generation) {}

  [[nodiscard]] int nodes() const { return static_cast<int>(links.size()); }
  [[nodiscard]] int behind(int root) const { return (config.node - root + nodes()) % nodes(); }

  /// An empty plan for `call`.
  void begin(comm::Call const& call) {
    std::fill(flows.begin(), flows.end(), Flow{});
    plan = Plan{};
    plan.call = call;
    plan.flows = &flows;
  }
  void begin_reduction(comm::Call const& call) {
    begin(call);
    if (call.type == DType::f32 && call.op == ReduceOp::sum) {
      plan.wire = call.wire;
    }
  }
  void run(Patience const& patience) { exchange.run(plan, mates, patience); }
};

Rails::Rails(RailConfig config, os::UniqueFd listener, Mates& mates, Patience const& patience)
    : impl_(std::make_unique<Impl>(std::move(config), mates)) {
  try {
    connect_rails(impl_->config, std::move(listener), mates, patience, impl_->links);
  } catch (...) {
    fail(std::current_exception());
    throw;
  }
}

Rails::~Rails() {
  say_farewell(impl_->links, wire::Farewell{});
}

void Rails::all_reduce(comm::Call const& call, std::byte* data, std::size_t count, Patience const& patience) {
  Impl& self = *impl_;
  self.begin_reduction(call);
  std::size_t const element = size_of(call.type);
  auto const part = [&](std::size_t node) {
    auto const range = comm::part_of(count, static_cast<int>(node), self.nodes(), kCacheLine / element);
    return std::span(data + range.first * element, range.count * element);
  };
  auto const mine = part(static_cast<std::size_t>(self.config.node));
  for (std::size_t node = 0; node < self.flows.size(); ++node) {
    self.flows[node] = {part(node), mine, mine.size(), part(node)};
  }
  self.plan.own = self.plan.reduced = mine.data();
  self.plan.part = mine.size();
  self.plan.round = true;
  self.run(patience);
}

void Rails::reduce_scatter(comm::Call const& call, std::span<std::byte const* const> parts, std::byte* out,
                           std::size_t count, Patience const& patience) {
  Impl& self = *impl_;
  self.begin_reduction(call);
  std::size_t const size = count * size_of(call.type);
  for (std::size_t node = 0; node < self.flows.size(); ++node) {
    self.flows[node] = {{parts[node], size}, {}, size, {}};
  }
  self.plan.own = parts[static_cast<std::size_t>(self.config.node)];
  self.plan.reduced = out;
  self.plan.part = size;
  self.run(patience);
}

void Rails::exchange(comm::Call const& call, std::span<std::span<std::byte const> const> sends,
                     std::span<std::span<std::byte> const> receives, Patience const& patience) {
  Impl& self = *impl_;
  self.begin(call);
  for (std::size_t node = 0; node < self.flows.size(); ++node) {
    self.flows[node] = {sends[node], {}, 0, receives[node]};
  }
  self.run(patience);
}

// Small: the root sends to everybody. Large: a chain, in which every node passes on what has come so far; every link
// carries the data once.
void Rails::broadcast(comm::Call const& call, std::span<std::byte> data, int root_node, Patience const& patience) {
  Impl& self = *impl_;
  self.begin(call);
  int const behind = self.behind(root_node);
  bool const star = data.size() <= kStarBytes || self.nodes() == 2;
  for (int node = 0; node < self.nodes(); ++node) {
    Flow& flow = self.flows[static_cast<std::size_t>(node)];
    int const theirs = (node - root_node + self.nodes()) % self.nodes();
    if (star ? behind == 0 : theirs == behind + 1) {
      flow.result = data;
    }
    if (star ? theirs == 0 : theirs == behind - 1) {
      flow.place = data;
      self.plan.relayed_from = star ? -1 : node;
    }
  }
  self.plan.distance = star ? 0 : std::max(behind - 1, 0);
  self.run(patience);
}

Trouble Rails::trouble() noexcept {
  Trouble worst = Trouble::none;
  for (Link const& link : impl_->links) {
    worst = link.control ? std::max(worst, peek_trouble(link)) : worst;
  }
  return worst;
}

void Rails::face_trouble(Patience const& patience) {
  Link const* gone = nullptr;
  for (Link& link : impl_->links) {
    if (link.control) {
      listen_to(link, impl_->config.generation, patience);
    }
    bool const worse = gone == nullptr || gone->ended == PeerFailure::Why::left;
    gone = link.ended && worse ? &link : gone;
  }
  if (gone != nullptr) {
    throw failure_of(*gone, *gone->ended, impl_->config.generation, patience);
  }
}

void Rails::fail(std::exception_ptr const& why) noexcept {
  try {
    say_farewell(impl_->links, farewell_for(why, impl_->config.peers[static_cast<std::size_t>(impl_->config.node)]));
  } catch (...) {  // no memory: the closing itself has to tell
    for (Link& link : impl_->links) {
      link.control.reset();
      link.data.reset();
    }
  }
}

}  // namespace cxxrun::host
