#include "src/base/store/poller.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "src/base/os/fd.hpp"

namespace cxxrun::store {
namespace {

constexpr Poller::Id kWake = 0;
constexpr std::size_t kEventsPerTurn = 128;

int control(int epoll, int operation, int fd, Poller::Id id, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  return ::epoll_ctl(epoll, operation, fd, &event);
}

}  // namespace

Poller::Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!epoll_ || !wake_ || control(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), kWake, EPOLLIN) != 0) {
    error_ = errno;
  }
}

Poller::Id Poller::watch(int fd, std::uint32_t events, std::shared_ptr<Watched> watched) {
  if (control(epoll_.get(), EPOLL_CTL_ADD, fd, last_ + 1, events) != 0) {
    return 0;
  }
  watched_.emplace(++last_, std::move(watched));
  return last_;
}

void Poller::change(int fd, Id id, std::uint32_t events) {
  control(epoll_.get(), EPOLL_CTL_MOD, fd, id, events);
}

void Poller::forget(int fd, Id id) {
  control(epoll_.get(), EPOLL_CTL_DEL, fd, id, 0);
  watched_.erase(id);
}

void Poller::post(Task task) {
  {
    std::lock_guard const lock(mutex_);
    posted_.push_back(std::move(task));
  }
  static_cast<void>(::eventfd_write(wake_.get(), 1));
}

void Poller::run() {
  std::array<epoll_event, kEventsPerTurn> events{};
  while (!stopped_ && error_ == 0) {
    int const n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), patience());
    for (int i = 0; i < n && !stopped_; ++i) {
      auto const& event = events[static_cast<std::size_t>(i)];  // NOLINT(cppcoreguidelines-pro-bounds-*)
      deliver(event.data.u64, event.events);
    }
    run_tasks();
    run_timers();
  }
}

int Poller::patience() const {
  if (!soon_.empty()) {
    return 0;
  }
  if (timers_.empty()) {
    return -1;
  }
  auto const earliest = [](auto const& a, auto const& b) { return a.first < b.first; };
  auto const next = std::min_element(timers_.begin(), timers_.end(), earliest)->first;
  return os::poll_time(next);
}

void Poller::deliver(Id id, std::uint32_t events) {
  if (id == kWake) {
    eventfd_t rings = 0;
    static_cast<void>(::eventfd_read(wake_.get(), &rings));
    std::vector<Task> tasks;
    {
      std::lock_guard const lock(mutex_);
      tasks.swap(posted_);
    }
    for (auto const& task : tasks) {
      task();
    }
  } else if (auto const found = watched_.find(id); found != watched_.end()) {  // else it was forgotten in this turn
    auto const alive = found->second;
    alive->ready(events);
  }
}

void Poller::run_tasks() {
  for (auto const& task : std::exchange(soon_, {})) {
    task();
  }
}

void Poller::run_timers() {
  if (timers_.empty()) {
    return;
  }
  auto const now = Clock::now();
  auto const due =
      std::stable_partition(timers_.begin(), timers_.end(), [now](auto const& timer) { return timer.first > now; });
  std::vector<std::pair<TimePoint, Task>> ripe(std::make_move_iterator(due), std::make_move_iterator(timers_.end()));
  timers_.erase(due, timers_.end());
  for (auto const& [when, task] : ripe) {
    task();
  }
}

}  // namespace cxxrun::store
