// Timer: one call at an instant of Clock, on the thread of an io_context. Shell.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "src/base/core/time.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::os {

/// After cancel(), at() or destruction the earlier call is not made, even if its time had come already.
class Timer {
 public:
  explicit Timer(boost::asio::io_context& io);
  ~Timer();
  Timer(Timer const&) = delete;
  Timer& operator=(Timer const&) = delete;

  void at(TimePoint when, std::function<void()> call);
  void after(Clock::duration delay, std::function<void()> call) { at(Clock::now() + delay, std::move(call)); }
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace cxxrun::os
