// SignalWatch: the signals of a process, as events of its io_context. Shell header.
#pragma once

#include <fcntl.h>
#include <functional>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "src/os/signals.hpp"

namespace cxxrun::launcher {

/// Must not be destroyed while the io_context runs.
class SignalWatch {
 public:
  SignalWatch(boost::asio::io_context& io, std::function<void(SignalInfo const&)> heard)
      : stream_(io), heard_(std::move(heard)) {}

  /// Blocks `signals` in the calling thread; from now on each is heard. Errc::io without a descriptor to spare.
  Result<void> begin(sigset_t const& signals) {
    auto opened = os::SignalFd::open(signals);
    if (!opened) {
      return opened.error();
    }
    fd_ = *std::move(opened);
    stream_.assign(fcntl(fd_.fd(), F_DUPFD_CLOEXEC, 3));
    await();
    return {};
  }

 private:
  void await() {
    stream_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                       [this](boost::system::error_code const& error) {
                         if (error) {
                           return;
                         }
                         while (auto const info = fd_.read()) {
                           heard_(*info);
                         }
                         await();
                       });
  }

  os::SignalFd fd_;
  boost::asio::posix::stream_descriptor stream_;
  std::function<void(SignalInfo const&)> heard_;
};

}  // namespace cxxrun::launcher
