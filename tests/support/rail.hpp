// A rail of forked ranks over loopback, for tests of it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "src/runtime/cpu/rails/rail_link.hpp"
#include "src/runtime/cpu/rails/rails.hpp"
#include "tests/support/ranks.hpp"

namespace cxxrun::test {

/// Nobody else on this node.
struct NoMates : host::LocalPeers {
  int held_by = -1;  ///< the last one named, not -1
  void check(host::Patience const& /*patience*/) override {}
  void held_up_by(int rank) override { held_by = rank >= 0 ? rank : held_by; }
};

inline host::Patience patience(std::chrono::milliseconds time = std::chrono::seconds(60)) {
  auto const now = Clock::now();
  return {now, now + time};
}

/// Rank 10 + n is on host "node<n>": ranks and nodes are not to be mixed up.
inline int rank_of(int node) {
  return 10 + node;
}

inline host::RailConfig rail_config(int node, std::vector<host::RailListener> const& listeners) {
  host::RailConfig config;
  config.node = node;
  config.generation = 7;
  config.nonce = 0x1234'5678'9abc'def0;
  for (std::size_t i = 0; i < listeners.size(); ++i) {
    config.peers.push_back({rank_of(static_cast<int>(i)), "node" + std::to_string(i), listeners[i].address});
  }
  return config;
}

inline std::vector<host::RailListener> loopback_listeners(int nodes) {
  std::vector<host::RailListener> listeners;
  for (int node = 0; node < nodes; ++node) {
    listeners.push_back(host::listen_for_rails("127.0.0.1"));
  }
  return listeners;
}

/// Returns when all nodes are connected: one that fails at once would make the others' constructors throw.
inline void meet(host::Rails& rails) {
  constexpr std::size_t kMostNodes = 8;
  std::vector<std::span<std::byte const>> const sends(kMostNodes);
  std::vector<std::span<std::byte>> const receives(kMostNodes);
  rails.exchange(comm::Call{}, sends, receives, patience());
}

/// `body(node, rails)` on every node, connected. What a body throws is told to the peers and is what the rank said.
inline std::vector<RankEnd> run_rail(int nodes, std::function<std::string(int node, host::Rails& rails)> const& body,
                                     std::function<void(std::vector<pid_t> const&)> const& meanwhile = {}) {
  auto listeners = loopback_listeners(nodes);
  return run_ranks(
      nodes,
      [&](int node) -> std::string {
        NoMates mates;
        auto const config = rail_config(node, listeners);
        auto mine = std::move(listeners[static_cast<std::size_t>(node)]);
        listeners.clear();
        host::Rails rails(config, std::move(mine), mates, patience());
        try {
          return body(node, rails);
        } catch (std::exception const& error) {
          rails.fail(std::current_exception());
          return std::string("threw: ") + error.what();
        }
      },
      meanwhile);
}

}  // namespace cxxrun::test
