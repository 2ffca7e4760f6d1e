// A plugin's table over host memory, and a host backend, that do what the test says: for the logic of the NCCL backend.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/base/core/call.hpp"
#include "src/runtime/cpu/node/alarm.hpp"
#include "src/runtime/cuda/plugin_api.h"
#include "src/runtime/gpu/nccl_leftover.hpp"
#include "src/runtime/gpu/nccl_peers.hpp"

struct cxxrun_cuda_comm {
  std::uint64_t marked = 0;
};

namespace cxxrun::test {

/// One per test; the table has no room for a pointer to it.
struct FakeDevice {
  std::atomic<bool> begins{true};    ///< else NCCL's start is an error that leaves a communicator behind
  std::atomic<bool> connects{true};  ///< else NCCL's start stays in progress
  std::atomic<bool> runs{true};      ///< else nothing queued is ever done
  std::atomic<int> runs_after{0};    ///< polls: then what is queued is done
  std::atomic<bool> broken{false};   ///< poll() says so
  std::atomic<bool> abort_hangs{false};
  std::atomic<bool> end_rests{false};  ///< an abort, and the end in good order, goes on when nothing runs any more
  std::atomic<bool> blocks{false};     ///< the driver: every call waits until an abort has ended what runs
  std::atomic<bool> unsure{false};     ///< whose memory something is
  std::atomic<int> refuses_memory{0};  ///< code of allocate()
  std::atomic<int> refused{0};         ///< times
  std::atomic<int> aborted{0};
  std::atomic<int> finalized{0};
  std::atomic<int> freed{0};
  std::atomic<int> inside{0};  ///< threads in the plugin: more than one is wrong
  std::atomic<bool> crowded{false};
  bool quiet = false;  ///< notes nothing
  std::mutex mutex;
  std::vector<std::string> said;  ///< what was asked for, without questions
  std::map<std::byte*, std::size_t> memory;

  static FakeDevice*& current() {
    static FakeDevice* device = nullptr;
    return device;
  }
  FakeDevice() { current() = this; }
  FakeDevice(FakeDevice const&) = delete;
  FakeDevice& operator=(FakeDevice const&) = delete;
  ~FakeDevice() {
    end_rests = false;
    static_cast<void>(gpu::Leftover::await_others(0, std::chrono::minutes(1)));
    current() = nullptr;
    for (auto const& [at, size] : memory) {
      std::free(at);  // NOLINT: as it was taken
    }
  }

  void say(std::string text) {
    std::lock_guard const lock(mutex);
    said.push_back(std::move(text));
  }
  [[nodiscard]] std::vector<std::string> heard() {
    std::lock_guard const lock(mutex);
    return said;
  }
  [[nodiscard]] static cxxrun_cuda_api const& table();
};

namespace fake {

inline FakeDevice& device() {
  return *FakeDevice::current();
}
class Inside {
 public:
  Inside() {
    if (device().inside.fetch_add(1) != 0) {
      device().crowded = true;
    }
  }
  Inside(Inside const&) = delete;
  Inside& operator=(Inside const&) = delete;
  ~Inside() { device().inside.fetch_sub(1); }
};

inline std::int32_t say(cxxrun_cuda_status* status, std::int32_t code, char const* text) {
  status->code = code;
  std::strncpy(status->text, text, sizeof status->text - 1);
  return code;
}

/// A limit against hanging only.
inline void pass_driver() {
  auto const until = Clock::now() + std::chrono::seconds(20);
  while (device().blocks && device().aborted == 0 && Clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

inline std::int32_t unique_id(std::uint8_t* id, cxxrun_cuda_status*) {
  id[0] = 77;
  return CXXRUN_CUDA_OK;
}
inline std::int32_t comm_begin(std::uint8_t const* id, std::int32_t rank, std::int32_t world,
                               cxxrun_cuda_settings const*, cxxrun_cuda_comm** comm, cxxrun_cuda_status* status) {
  *comm = new cxxrun_cuda_comm;
  if (!device().quiet) {
    device().say("begin " + std::to_string(id[0]) + " " + std::to_string(rank) + "/" + std::to_string(world));
  }
  return device().begins ? CXXRUN_CUDA_OK : say(status, CXXRUN_CUDA_NCCL, "ncclCommInitRankConfig: no");
}
inline std::int32_t poll(cxxrun_cuda_comm*, cxxrun_cuda_status* status) {
  Inside const inside;
  if (device().runs_after.load() > 0 && device().runs_after.fetch_sub(1) == 1) {
    device().runs = true;
  }
  if (device().broken) {
    return say(status, CXXRUN_CUDA_NCCL, "ncclRemoteError: socket closed");
  }
  return device().connects ? CXXRUN_CUDA_OK : CXXRUN_CUDA_IN_PROGRESS;
}
inline void rest() {
  while (device().end_rests) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}
inline void abort(cxxrun_cuda_comm*) {
  if (!device().quiet) {
    device().say("abort");
  }
  if (device().blocks) {
    device().runs = true;  // whatever runs is done, and its results are worth nothing
  }
  ++device().aborted;
  while (device().abort_hangs) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  rest();
}
inline std::int32_t drained(cxxrun_cuda_comm*, cxxrun_cuda_status*) {
  return device().aborted > 0 && !device().abort_hangs ? CXXRUN_CUDA_OK : CXXRUN_CUDA_IN_PROGRESS;
}
inline std::int32_t finalize(cxxrun_cuda_comm*, cxxrun_cuda_status*) {
  ++device().finalized;
  rest();
  return CXXRUN_CUDA_OK;
}
inline void comm_free(cxxrun_cuda_comm* comm) {
  ++device().freed;
  delete comm;
}
inline std::int32_t allocate(cxxrun_cuda_comm*, std::uint64_t bytes, void** memory, cxxrun_cuda_status* status) {
  Inside const inside;
  if (device().refuses_memory != 0) {
    ++device().refused;
    return say(status, device().refuses_memory, "cudaMalloc: out of memory");
  }
  auto* const at = static_cast<std::byte*>(std::calloc(1, bytes));
  device().memory[at] = bytes;
  *memory = at;
  return CXXRUN_CUDA_OK;
}
inline std::int32_t after(cxxrun_cuda_comm*, void* stream, cxxrun_cuda_status*) {
  Inside const inside;
  if (!device().quiet) {
    device().say("after " + std::to_string(reinterpret_cast<std::uintptr_t>(stream)));
  }
  return CXXRUN_CUDA_OK;
}
inline std::int32_t enqueue(cxxrun_cuda_comm*, cxxrun_cuda_call const* call, cxxrun_cuda_status*) {
  Inside const inside;
  pass_driver();
  if (!device().quiet) {
    device().say(comm::describe({.kind = static_cast<comm::Kind>(call->kind),
                                 .type = static_cast<DType>(call->type),
                                 .op = static_cast<ReduceOp>(call->op),
                                 .wire = static_cast<Wire>(call->wire),
                                 .root = call->root,
                                 .count = call->count,
                                 .scale = call->scale}));
  }
  return CXXRUN_CUDA_OK;
}
inline std::int32_t copy(cxxrun_cuda_comm*, void* to, void const* from, std::uint64_t bytes, cxxrun_cuda_status*) {
  std::memcpy(to, from, bytes);
  return CXXRUN_CUDA_OK;
}
inline std::int32_t multiply(cxxrun_cuda_comm*, std::uint8_t, void*, std::uint64_t, double, cxxrun_cuda_status*) {
  return CXXRUN_CUDA_OK;
}
inline std::int32_t add_squares(cxxrun_cuda_comm*, std::uint8_t, void const*, std::uint64_t, double*,
                                cxxrun_cuda_status*) {
  return CXXRUN_CUDA_OK;
}
inline std::int32_t mark(cxxrun_cuda_comm* comm, std::uint64_t* point, cxxrun_cuda_status*) {
  Inside const inside;
  *point = ++comm->marked;
  return CXXRUN_CUDA_OK;
}
inline std::int32_t reached(cxxrun_cuda_comm*, std::uint64_t, cxxrun_cuda_status*) {
  Inside const inside;
  pass_driver();
  return device().runs ? CXXRUN_CUDA_OK : CXXRUN_CUDA_IN_PROGRESS;
}
inline std::int32_t wait_on(cxxrun_cuda_comm*, std::uint64_t point, void* stream, cxxrun_cuda_status*) {
  if (!device().quiet) {
    device().say(std::to_string(reinterpret_cast<std::uintptr_t>(stream)) + " waits for " + std::to_string(point));
  }
  return CXXRUN_CUDA_OK;
}
inline std::int32_t is_device_memory(void const* pointer, cxxrun_cuda_status* status) {
  if (device().unsure) {
    say(status, CXXRUN_CUDA_CUDA, "cudaPointerGetAttributes: an illegal memory access");
    return -1;
  }
  auto const* const at = static_cast<std::byte const*>(pointer);
  for (auto const& [begin, size] : device().memory) {
    if (at >= begin && at < begin + size) {
      return 1;
    }
  }
  return 0;
}

inline std::int32_t usable(cxxrun_cuda_comm*, cxxrun_cuda_status*) {
  device().say("usable?");
  return CXXRUN_CUDA_OK;
}

inline std::int32_t is_captured(void*, cxxrun_cuda_status*) {
  return 0;
}

}  // namespace fake

inline cxxrun_cuda_api const& FakeDevice::table() {
  static cxxrun_cuda_api const api{CXXRUN_CUDA_ABI,  nullptr,          nullptr,           fake::unique_id,
                                   fake::comm_begin, fake::poll,       fake::abort,       fake::drained,
                                   fake::finalize,   fake::comm_free,  fake::allocate,    fake::after,
                                   fake::enqueue,    fake::multiply,   fake::add_squares, fake::copy,
                                   fake::mark,       fake::reached,    fake::wait_on,     fake::is_device_memory,
                                   fake::usable,     fake::is_captured};
  return api;
}

/// Every rank says what this one says, until one is gone.
class FakePeers final : public host::Backend {
 public:
  struct State {
    std::atomic<host::Trouble> trouble{host::Trouble::none};
    std::atomic<int> late{-1};       ///< a rank that does not come
    std::atomic<bool> holds{false};  ///< calls wait until there is trouble
    std::atomic<bool> held{false};   ///< one does
    std::atomic<int> calls{0};
    std::atomic<int> aborts{0};
    std::atomic<int> left{0};
    std::atomic<int> looks{0};               ///< at trouble
    std::atomic<std::size_t> other_size{0};  ///< what rank 1 asks for
    host::FailureFacts facts{true, PeerFailure::Why::died, 1, "node1", {}};
    std::mutex mutex;

    void lose_peer() { trouble = host::Trouble::failed; }
  };
  FakePeers(State& state, int world) : state_(state), world_(static_cast<std::size_t>(world)) {}

  void run(comm::Call const& call) override {
    ++state_.calls;
    while (state_.holds && state_.trouble == host::Trouble::none) {
      state_.held = true;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    if (state_.trouble != host::Trouble::none) {
      std::lock_guard const lock(state_.mutex);
      host::throw_failure(state_.facts, 7, Clock::now());
    }
    if (state_.late >= 0) {
      throw PeerFailure(PeerFailure::Why::timeout, state_.late, "node1", 7, {});
    }
    if (call.kind == comm::Kind::all_gather) {
      for (std::size_t rank = 0; rank < world_; ++rank) {
        std::memcpy(static_cast<std::byte*>(call.out) + rank * call.count, call.in, call.count);
      }
      if (call.count == sizeof(std::uint64_t) && state_.other_size != 0) {
        static_cast<std::uint64_t*>(call.out)[1] = state_.other_size;
      }
    }
  }
  std::byte* allocate(std::size_t) override { return nullptr; }
  [[nodiscard]] std::string describe() const override { return "fake peers"; }
  void leave() noexcept override { ++state_.left; }
  [[nodiscard]] host::Trouble trouble() noexcept override {
    ++state_.looks;
    return state_.trouble;
  }
  void abort(host::FailureFacts const& facts) noexcept override {
    ++state_.aborts;
    std::lock_guard const lock(state_.mutex);
    state_.facts = facts;
    state_.trouble = host::Trouble::failed;
  }

 private:
  State& state_;
  std::size_t world_;
};

}  // namespace cxxrun::test
