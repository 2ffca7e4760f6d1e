#include "rendezvous/silence_watch.hpp"

#include <utility>

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>

#include "src/core/time.hpp"
#include "src/os/log.hpp"

namespace cxxrun::rendezvous {

struct SilenceWatch::Impl : std::enable_shared_from_this<SilenceWatch::Impl> {
  Impl(boost::asio::io_context& io, SilencePolicy chosen, std::function<void(PeerId)> on_lost)
      : policy(chosen), lost(std::move(on_lost)), timer(io) {}

  SilencePolicy policy;
  std::function<void(PeerId)> lost;
  boost::asio::basic_waitable_timer<Clock> timer;
  SilenceState state;
  std::optional<TimePoint> armed;

  void arm() {
    if (state.due == armed) {
      return;
    }
    armed = state.due;
    if (!armed) {
      timer.cancel();
      return;
    }
    timer.expires_at(*armed);
    timer.async_wait([weak = weak_from_this()](boost::system::error_code const& error) {
      if (auto const self = weak.lock(); self && !error) {
        self->look();
      }
    });
  }

  void look() {
    auto result = tick(std::move(state), Clock::now(), policy);
    state = std::move(result.next);
    if (result.stalled) {
      log(Level::debug, "this process was suspended; nobody is judged by the silence meanwhile");
    }
    arm();
    for (PeerId const peer : result.lost) {
      lost(peer);
    }
  }
};

SilenceWatch::SilenceWatch(boost::asio::io_context& io, SilencePolicy policy, std::function<void(PeerId)> lost)
    : impl_(std::make_shared<Impl>(io, policy, std::move(lost))) {}

SilenceWatch::~SilenceWatch() {
  impl_->timer.cancel();
}

void SilenceWatch::heard(PeerId peer) {
  impl_->state = rendezvous::heard(std::move(impl_->state), peer, Clock::now(), impl_->policy);
  impl_->arm();
}

void SilenceWatch::forget(PeerId peer) {
  impl_->state = rendezvous::forget(std::move(impl_->state), peer);
  impl_->arm();
}

}  // namespace cxxrun::rendezvous
