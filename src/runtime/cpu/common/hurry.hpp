// Hurry: whether waits are to be given up at once, because others wait for this rank meanwhile. Any thread.
//
// Who gives up names whom it has waited for only after half of the time that it may wait: whoever has come to a call
// later than that was late for the others itself, and the one that it waits for perhaps was not.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "src/base/core/time.hpp"

namespace cxxrun::host {

class Hurry {
 public:
  /// `answer` is called by each wait that is given up, from its own thread. Only the first call counts.
  void ask(std::function<void()> answer) noexcept {
    if (!begun_.exchange(true)) {
      answer_ = std::move(answer);
      asked_.store(true, std::memory_order_release);
    }
  }
  [[nodiscard]] bool asked() const noexcept { return asked_.load(std::memory_order_acquire); }
  /// Of one that has waited for `waited` of the time `most`, and has seen that it is asked: whether it may name a peer.
  [[nodiscard]] bool answer(Clock::duration waited, Clock::duration most) const {
    answer_();
    return waited >= most / 2;
  }

 private:
  std::atomic<bool> begun_{false};
  std::atomic<bool> asked_{false};  // answer_ is set before it
  std::function<void()> answer_;
};

}  // namespace cxxrun::host
