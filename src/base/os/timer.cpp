#include "src/base/os/timer.hpp"

#include <cstdint>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>

namespace cxxrun::os {

struct Timer::State {
  explicit State(boost::asio::io_context& io) : timer(io) {}
  boost::asio::basic_waitable_timer<Clock> timer;
  std::uint64_t turn = 0;  // of the current wait; a completed earlier wait is ignored
};

Timer::Timer(boost::asio::io_context& io) : state_(std::make_shared<State>(io)) {}

Timer::~Timer() = default;

void Timer::at(TimePoint when, std::function<void()> call) {
  state_->timer.expires_at(when);
  state_->timer.async_wait([weak = std::weak_ptr(state_), turn = ++state_->turn,
                            call = std::move(call)](boost::system::error_code const& error) {
    auto const state = weak.lock();
    if (!error && state && state->turn == turn) {
      call();
    }
  });
}

void Timer::cancel() {
  ++state_->turn;
  state_->timer.cancel();
}

}  // namespace cxxrun::os
