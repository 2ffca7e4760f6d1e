// World: virtual time, what happens next, and the clocks that the cores see. Deterministic: one seed, one execution.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "src/base/core/time.hpp"

namespace cxxrun::simulation {

/// True time, in microseconds since the world began. No core ever sees it.
using Micros = std::int64_t;

constexpr Micros micros(Millis duration) {
  return duration.count() * 1000;
}

/// Our own generator: the standard's distributions differ between libraries, and seeds are kept for years.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15U + 0x1234567U) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  /// Uniform in [low, high].
  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }

 private:
  std::uint64_t state_;
};

/// The clock of one host: another start, and up to `ppm` millionths too fast or too slow.
class HostClock {
 public:
  HostClock() = default;
  HostClock(Micros offset, std::int64_t ppm) : offset_(offset), ppm_(ppm) {}
  [[nodiscard]] TimePoint read(Micros now) const {
    return TimePoint(std::chrono::microseconds(offset_ + now + now * ppm_ / 1'000'000));
  }
  /// The first moment of true time at which the clock shows `at` or later.
  [[nodiscard]] Micros when(TimePoint at) const {
    auto const shown = std::chrono::ceil<std::chrono::microseconds>(at.time_since_epoch()).count() - offset_;
    auto guess = static_cast<Micros>(static_cast<double>(shown) / (1.0 + static_cast<double>(ppm_) * 1e-6)) - 2;
    while (read(guess) < at) {
      ++guess;
    }
    return guess;
  }

 private:
  Micros offset_ = 0;
  std::int64_t ppm_ = 0;
};

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {}
  World(World const&) = delete;
  World& operator=(World const&) = delete;

  [[nodiscard]] Micros now() const { return now_; }
  Random& random() { return random_; }

  void at(Micros when, std::function<void()> what) {
    queue_.push(Entry{std::max(when, now_), ++last_, std::move(what)});
  }
  void after(Micros delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }

  /// The next thing happens. False: nothing will ever happen again.
  bool step() {
    if (queue_.empty()) {
      return false;
    }
    auto what = std::move(const_cast<Entry&>(queue_.top()).what);  // NOLINT: the entry goes with the next line
    now_ = queue_.top().when;
    queue_.pop();
    ++steps_;
    what();
    return true;
  }
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

  // ---- what is told of a failed seed -------------------------------------------------------------------------

  bool traced = false;
  bool messages_traced = false;
  std::vector<std::string> trace;
  /// `says` is called only when somebody reads it.
  template <class Says>
  void note(Says says) {
    if (traced) {
      auto const stamp = std::to_string(now_ / 1000) + "." + std::to_string(now_ % 1000 + 1000).substr(1);
      trace.push_back(std::string(stamp.size() < 11 ? 11 - stamp.size() : 0, ' ') + stamp + "  " + says());
    }
  }
  /// The first rule that was broken; the execution ends there.
  std::optional<std::string> broken;
  void violated(std::string rule) {
    note([&] { return "BROKEN: " + rule; });
    if (!broken) {
      broken = std::move(rule);
    }
  }

 private:
  struct Entry {
    Micros when = 0;
    std::uint64_t order = 0;
    std::function<void()> what;
    bool operator<(Entry const& other) const {
      return std::pair(other.when, other.order) < std::pair(when, order);  // a priority_queue gives the greatest
    }
  };

  std::priority_queue<Entry> queue_;
  Random random_;
  Micros now_ = 0;
  std::uint64_t last_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace cxxrun::simulation
