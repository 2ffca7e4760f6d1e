// Poller: the event loop of one thread, on epoll. Shell.
//
// Workers link this library, and a training program may have its own version of any reactor library. Two versions in
// one program break each other silently, so this library has none. Events are level-triggered: an event that was not
// acted on is delivered again. All members except post() belong to the thread that calls run(), and before run() to the
// thread that made the Poller.
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

/// The owner of a descriptor that a Poller watches.
class Watched {
 public:
  Watched() = default;
  Watched(Watched const&) = delete;
  Watched& operator=(Watched const&) = delete;
  virtual ~Watched() = default;
  /// `events`: EPOLLIN and so on. Errors and hang-ups are always delivered.
  virtual void ready(std::uint32_t events) = 0;
};

class Poller {
 public:
  using Id = std::uint64_t;  ///< never used twice
  using Task = std::function<void()>;

  Poller();
  /// 0, or the errno with which the constructor failed; then run() returns at once and nothing else may be called.
  [[nodiscard]] int error() const { return error_; }

  /// Keeps `watched` until forget(). Returns 0 with errno when the kernel watches no more.
  [[nodiscard]] Id watch(int fd, std::uint32_t events, std::shared_ptr<Watched> watched);
  void change(int fd, Id id, std::uint32_t events);
  /// To be called before the descriptor is closed. Events already fetched are not delivered any more.
  void forget(int fd, Id id);

  void soon(Task task) { soon_.push_back(std::move(task)); }  ///< after the events of this turn
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
