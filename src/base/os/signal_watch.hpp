// SignalWatch: the signals of a process, as events of its io_context. Shell header.
#pragma once

#include <fcntl.h>
#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "src/base/os/signals.hpp"

namespace cxxrun::os {

/// Nothing is heard any more once this is destroyed.
class SignalWatch {
 public:
  SignalWatch(boost::asio::io_context& io, std::function<void(SignalInfo const&)> heard)
      : state_(std::make_shared<State>(State{{}, Stream(io), std::move(heard)})) {}

  /// Blocks `signals` in the calling thread; from now on each is heard. Errc::io without a descriptor to spare.
  Result<void> begin(sigset_t const& signals) {
    auto opened = SignalFd::open(signals);
    if (!opened) {
      return opened.error();
    }
    state_->fd = *std::move(opened);
    state_->stream.assign(fcntl(state_->fd.fd(), F_DUPFD_CLOEXEC, 3));
    await(state_);
    return {};
  }

 private:
  using Stream = boost::asio::posix::stream_descriptor;
  struct State {
    SignalFd fd;
    Stream stream;
    std::function<void(SignalInfo const&)> heard;
  };

  static void await(std::shared_ptr<State> const& watched) {
    watched->stream.async_wait(Stream::wait_read,
                               [weak = std::weak_ptr(watched)](boost::system::error_code const& error) {
                                 auto const state = weak.lock();
                                 if (error || !state) {
                                   return;
                                 }
                                 while (auto const info = state->fd.read()) {
                                   state->heard(*info);
                                 }
                                 await(state);
                               });
  }

  std::shared_ptr<State> state_;
};

}  // namespace cxxrun::os
