// Communicators of forked ranks that meet in a store of the test.
#pragma once

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cxxrun/communicator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/forked_store.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/text.hpp"

namespace cxxrun::test {

inline constexpr std::chrono::seconds kGuard{60};

inline WorkerEnv env_of(ForkedStore const& store, int rank, int world) {
  WorkerEnv env;
  env.rank = env.local_rank = rank;
  env.world_size = env.local_world_size = world;
  env.generation = 1;
  env.store = store.address();
  return env;
}

/// Which ranks share a node: "aab" puts ranks 0 and 1 on one and rank 2 on another.
inline Communicator init(ForkedStore const& store, int rank, std::string const& nodes,
                         Communicator::Options options = {}) {
  options.init_timeout = std::min<std::chrono::milliseconds>(options.init_timeout, kGuard);
  std::string const node(1, nodes[static_cast<std::size_t>(rank)]);
  setenv("CXXRUN_HOST_ID", node.c_str(), 1);
  setenv("CXXRUN_HOST", ("host_" + node).c_str(), 1);
  return Communicator::init(env_of(store, rank, static_cast<int>(nodes.size())), options);
}

inline void expect(bool right, char const* what) {
  if (!right) {
    throw std::runtime_error(std::string("wrong: ") + what);
  }
}

/// What `action` throws, in words; else "nothing".
inline std::string words(std::function<void()> const& action) {
  try {
    action();
  } catch (Failure const& failure) {
    return failure.what();
  } catch (PeerFailure const& failure) {
    return failure.what();
  }
  return "nothing";
}

/// "WHY rank RANK on HOST", of which WHY is a number.
inline std::string named_by(PeerFailure const& failure) {
  return std::to_string(static_cast<int>(failure.why())) + " rank " + std::to_string(failure.rank()) + " on " +
         failure.host();
}

/// Kills `victim` once no other rank is in a call.
inline void die_when_ready(ForkedStore const& store, int rank, int victim, int world) {
  if (rank != victim) {
    or_throw(store.client().set("ready " + std::to_string(rank), ""));
    return;
  }
  for (int other = 0; other < world; ++other) {
    if (other != victim) {
      or_throw(store.client().wait({"ready " + std::to_string(other)}, kGuard));
    }
  }
  raise(SIGKILL);
}

inline void check_all_returned(std::vector<RankEnd> const& ends) {
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(end.returned());
  }
}

}  // namespace cxxrun::test
