// Process: something that may be frozen or killed. What reaches a frozen process waits, its timers too.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "tests/simulation/world.hpp"

namespace cxxrun::simulation {

class Process {
 public:
  explicit Process(World& world) : world_(world) {}

  [[nodiscard]] bool alive() const { return alive_; }
  [[nodiscard]] bool frozen() const { return frozen_ > 0; }

  /// Something has reached it that it has not seen yet.
  [[nodiscard]] bool pending() const { return !backlog_.empty(); }

  enum class What { input, timer };
  void run(std::function<void()> what, What kind = What::input) {
    if (!alive_) {
      return;
    }
    if (frozen_ > 0) {
      backlog_.emplace_back(kind, std::move(what));
      return;
    }
    what();
  }
  /// The callback form: what is called later runs in this process.
  template <class... Args, class Does>
  std::function<void(Args...)> wrap(Does does) {
    return [this, does](Args... args) { run([does, args...] { does(args...); }); };
  }
  void after(Micros delay, std::function<void()> what) {
    world_.after(delay, [this, what = std::move(what)]() mutable { run(std::move(what), What::timer); });
  }

  void freeze() { ++frozen_; }
  /// Which the kernel says first, data or timers, nobody can rely on.
  void thaw() {
    if (--frozen_ > 0 || !alive_) {
      return;
    }
    bool const timers_first = world_.random().chance(50);
    std::stable_partition(backlog_.begin(), backlog_.end(),
                          [&](auto const& entry) { return (entry.first == What::timer) == timers_first; });
    while (!backlog_.empty() && alive_ && frozen_ == 0) {
      auto const what = std::move(backlog_.front().second);
      backlog_.pop_front();
      what();
    }
  }
  void die() {
    alive_ = false;
    backlog_.clear();
  }

 private:
  World& world_;
  bool alive_ = true;
  int frozen_ = 0;
  std::deque<std::pair<What, std::function<void()>>> backlog_;
};

}  // namespace cxxrun::simulation
