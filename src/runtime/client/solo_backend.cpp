#include "src/runtime/client/solo_backend.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "cxxrun/arena.hpp"
#include "cxxrun/failure.hpp"
#include "src/base/os/system.hpp"
#include "src/runtime/comm/reduce.hpp"
#include "src/runtime/cpu/common/fault_points.hpp"
#include "src/runtime/cpu/node/alarm.hpp"

namespace cxxrun::client {
namespace {

class SoloBackend final : public host::Backend {
 public:
  SoloBackend(std::string holder, std::uint64_t generation) : holder_(std::move(holder)), generation_(generation) {}

  void run(comm::Call const& call) override {
    if (stopped_.load(std::memory_order_acquire)) {
      host::throw_failure(why_, generation_, Clock::now());
    }
    host::count_call();
    host::fault_point(host::FaultPoint::enter);
    if (call.scale != 1.0F) {
      std::array<void const*, 1> const in{call.in};
      std::array<void*, 1> const out{call.out};
      comm::reduce(call.type, call.op, in, out, call.count, call.scale);
    } else if (std::size_t const bytes = comm::out_bytes(call, 1); bytes > 0 && call.in != call.out) {
      std::memcpy(call.out, call.in, bytes);
    }
    host::fault_point(host::FaultPoint::leave);
  }

  std::byte* allocate(std::size_t bytes) override {
    if (bytes == 0) {
      return nullptr;
    }
    auto memory = os::map_memory(bytes, MAP_PRIVATE | MAP_ANONYMOUS);
    if (!memory) {
      throw Failure(fail(
          Errc::io, holder_ + ": no memory for an arena of " + std::to_string(bytes) + " bytes; ask for less", errno));
    }
    maps_.push_back(std::move(memory));
    return static_cast<std::byte*>(maps_.back().get());
  }

  [[nodiscard]] std::string describe() const override { return "alone"; }
  /// A world of one has no peer that could fail, but the world may be about to get more ranks, or this is a group.
  void abort(host::FailureFacts const& facts) noexcept override {
    if (!told_.exchange(true)) {
      why_ = facts;
      stopped_.store(true, std::memory_order_release);
    }
  }

 private:
  std::string holder_;
  std::uint64_t generation_;
  std::atomic<bool> told_{false};
  std::atomic<bool> stopped_{false};  // why_ is set before it
  host::FailureFacts why_{};
  std::vector<os::Mapping> maps_;
};

}  // namespace

std::unique_ptr<host::Backend> make_solo_backend(std::string holder, std::uint64_t generation) {
  return std::make_unique<SoloBackend>(std::move(holder), generation);
}

}  // namespace cxxrun::client
