// Poller: the event loop of one thread, on epoll. Shell.
//
// A training program may have its own version of any reactor library, and two versions in one program break each
// other silently; so what workers link has none. Level-triggered: who was told and did not act is told again.
// All members except post() belong to the thread that calls run(), or to whoever calls before it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::store {

/// Something with a descriptor.
class Watched {
 public:
  Watched() = default;
  Watched(Watched const&) = delete;
  Watched& operator=(Watched const&) = delete;
  virtual ~Watched() = default;
  /// `events`: EPOLLIN and so on. Errors and hang-ups come unasked.
  virtual void ready(std::uint32_t events) = 0;
};

class Poller {
 public:
  using Id = std::uint64_t;  ///< never used twice
  using Task = std::function<void()>;

  Poller();
  /// 0, or why there is no descriptor for it (errno); then run() returns at once and nothing else may be called.
  [[nodiscard]] int error() const { return error_; }

  /// Keeps `watched` until forget(). 0 and errno when the kernel takes no more.
  [[nodiscard]] Id watch(int fd, std::uint32_t events, std::shared_ptr<Watched> watched);
  void change(int fd, Id id, std::uint32_t events);
  /// Before the descriptor is closed. Events that are under way are not delivered any more.
  void forget(int fd, Id id);

  void soon(Task task) { soon_.push_back(std::move(task)); }  ///< after everybody else had a turn
  void at(TimePoint when, Task task) { timers_.emplace_back(when, std::move(task)); }
  void post(Task task);  ///< from any thread

  void run();  ///< until stop()
  void stop() { stopped_ = true; }

 private:
  void run_tasks();
  void run_timers();
  void deliver(Id id, std::uint32_t events);
  [[nodiscard]] int patience() const;

  os::UniqueFd epoll_;
  os::UniqueFd wake_;
  int error_ = 0;
  bool stopped_ = false;
  Id last_ = 0;
  std::unordered_map<Id, std::shared_ptr<Watched>> watched_;
  std::vector<Task> soon_;
  std::vector<std::pair<TimePoint, Task>> timers_;
  std::mutex mutex_;  // of posted_
  std::vector<Task> posted_;
};

}  // namespace cxxrun::store
