#include "src/runtime/gpu/nccl_leftover.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <utility>

#include "src/base/os/thread.hpp"

namespace cxxrun::gpu {
namespace {

struct Gate {
  std::mutex mutex;  // held while writing, so that nobody writes to a flag that has been taken back
  float* flag = nullptr;
};
/// Never destroyed: a thread may abort NCCL after static objects are destroyed.
Gate& gate() {
  static auto& made = *new Gate;
  return made;
}

/// A communicator that has not ended by then is stuck; exit() goes on without it.
constexpr Millis kLastWait{4000};

std::atomic<bool> g_process_ends{false};

struct All {
  std::mutex mutex;
  std::condition_variable changed;
  std::list<std::thread> left;
  std::list<std::thread> over;  ///< finished threads to be joined
};
/// Never destroyed: a thread may still run when static objects are destroyed.
All& all() {
  static auto& made = *new All;
  return made;
}

/// Joins the finished threads, which takes no time. Releases the lock.
void join_over(std::unique_lock<std::mutex> lock) {
  auto over = std::exchange(all().over, {});
  lock.unlock();
  std::for_each(over.begin(), over.end(), [](auto& thread) { thread.join(); });
}

}  // namespace

void set_gate(float* flag) noexcept {
  std::lock_guard const lock(gate().mutex);
  gate().flag = flag;
}

void shut_gate() noexcept {
  std::lock_guard const lock(gate().mutex);
  if (gate().flag != nullptr) {
    std::atomic_ref(*gate().flag).store(1.0F);
  }
}

Leftover::Owner Leftover::begin(cxxrun_cuda_api const& api, cxxrun_cuda_comm* comm, How how) {
  Owner owner(new Leftover(api, comm));
  std::lock_guard const lock(all().mutex);
  all().left.push_back(os::start_quiet_thread([left = owner.get(), how] { left->carry_out(how); }));
  return owner;
}

void Leftover::carry_out(How how) noexcept {
  cxxrun_cuda_status status{};
  if (how == How::abort || api_.finalize(comm_, &status) != CXXRUN_CUDA_OK) {
    api_.abort(comm_);
  }
  std::unique_lock lock(all().mutex);
  over_ = true;
  all().changed.notify_all();
  if (alone_) {
    lock.unlock();
    delete this;
    lock.lock();
  }
  auto const is_this = [](auto const& thread) { return thread.get_id() == std::this_thread::get_id(); };
  auto& left = all().left;
  all().over.splice(all().over.end(), left, std::find_if(left.begin(), left.end(), is_this));
  all().changed.notify_all();
}

void Leftover::Leave::operator()(Leftover* left) const noexcept {
  std::unique_lock lock(all().mutex);
  left->alone_ = !left->over_;
  bool const over = left->over_;
  join_over(std::move(lock));
  if (over) {
    delete left;
  }
}

Leftover::~Leftover() {
  if (!process_ends()) {
    api_.comm_free(comm_);
  }
}

bool Leftover::await(Millis patience) const {
  std::unique_lock lock(all().mutex);
  bool const over = all().changed.wait_for(lock, patience, [this] { return over_; });
  join_over(std::move(lock));
  return over;
}

bool Leftover::await_others(std::size_t most, Millis patience) {
  std::unique_lock lock(all().mutex);
  bool const so_few = all().changed.wait_for(lock, patience, [most] { return all().left.size() <= most; });
  join_over(std::move(lock));
  return so_few;
}

bool process_ends() {
  return g_process_ends.load();
}

/// CUDA shuts down in an exit() handler that was registered before this one, and therefore runs after it. Static
/// objects of the program may be destroyed after both.
void register_exit_handler() {
  static pid_t const pid = ::getpid();
  [[maybe_unused]] static int const set = std::atexit([] {
    g_process_ends.store(true);
    if (::getpid() == pid) {  // a forked child has none of the threads
      static_cast<void>(Leftover::await_others(0, kLastWait));
    }
  });
}

}  // namespace cxxrun::gpu
