// What a communicator of the double is, beside its handle, and what its collectives do on a stream.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/support/cuda_double/script.hpp"
#include "tests/support/cuda_double/world.hpp"

namespace cxxrun::cuda_double {

/// Shared with the thread that joins the world and with what lies in streams.
struct State {
  Script script;
  std::atomic<bool> stop{false};
  std::atomic<int> error{ncclSuccess};
  std::atomic<bool> joined{false};
  ncclUniqueId id{};
  std::optional<World> world;  ///< of the streams, from `joined` on
  std::uint64_t history = 0;
  std::uint64_t done = 0;
  std::vector<std::pair<std::byte const*, std::size_t>> windows;  ///< of the thread that calls, as `symmetric`
  std::atomic<int> inside{0};                                     ///< threads that are in one of its functions
  std::atomic<int> deaf{0};  ///< kernels that run or are queued and look at no flag
};

/// NCCL takes its symmetric kernels where the buffers lie in windows. Before 2.29.7 nothing ends one but the peers.
inline bool is_deaf(State const& state, Operation const& operation) {
  auto const inside = [&](void const* buffer) {
    return std::any_of(state.windows.begin(), state.windows.end(), [&](auto const& window) {
      auto const* const at = static_cast<std::byte const*>(buffer);
      return at >= window.first && at < window.first + window.second;
    });
  };
  return state.script.nccl < 22907 && inside(operation.in) && inside(operation.out);
}

class Inside {
 public:
  explicit Inside(std::shared_ptr<State> state) : state_(std::move(state)) { ++state_->inside; }
  Inside(Inside const&) = delete;
  Inside& operator=(Inside const&) = delete;
  ~Inside() { --state_->inside; }

 private:
  std::shared_ptr<State> state_;
};

inline void wait_for_stop(State& state) {
  while (!state.stop) {
    ::usleep(200);
  }
}

/// Waits for its turn on the device where there is room for one kernel. Nothing: it has been told to end meanwhile.
inline std::optional<std::unique_lock<std::mutex>> room_for(State& state) {
  static auto& room = *new std::mutex;  // there is one device in a process that is a rank
  if (!state.script.little_room) {
    return std::unique_lock<std::mutex>();
  }
  while (!state.stop) {
    if (std::unique_lock lock(room, std::try_to_lock); lock) {
      count("rooms");
      return lock;
    }
    ::usleep(200);
  }
  return std::nullopt;
}

inline void perform(State& state, Operation const& operation, bool deaf) {
  static std::atomic<bool> const never{false};
  if (state.error != ncclSuccess) {
    return wait_for_stop(state);
  }
  if (state.script.fault_after && state.done == *state.script.fault_after) {
    return cxxrun_cuda_double_lose_context();
  }
  if (state.script.collective && state.done == state.script.collective->after) {
    state.error = state.script.collective->code;
    return wait_for_stop(state);
  }
  auto const room = room_for(state);
  if (!room) {
    return;
  }
  auto const outcome =
      carry_out(*state.world, operation, state.history, deaf ? never : state.stop, state.script.deaths_seen && !deaf);
  if (outcome != ncclSuccess && outcome != ncclInProgress) {
    state.error = outcome;
    wait_for_stop(state);
  }
  ++state.done;
}

}  // namespace cxxrun::cuda_double
