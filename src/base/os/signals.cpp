#include "src/base/os/signals.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/signalfd.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "src/base/os/fd.hpp"

namespace cxxrun::os {

sigset_t make_sigset(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int const signal : signals) {
    sigaddset(&set, signal);
  }
  return set;
}

void block_signals(sigset_t const& signals) {
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

Result<SignalFd> SignalFd::open(sigset_t const& signals) {
  block_signals(signals);
  SignalFd made;
  made.fd_.reset(signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!made.fd_) {
    return fail(Errc::io, "cannot open a descriptor for signals", errno);
  }
  return made;
}

std::optional<SignalInfo> SignalFd::read() {
  signalfd_siginfo info{};
  auto const got = retried([&] { return ::read(fd_.get(), &info, sizeof info); });
  if (got != static_cast<ssize_t>(sizeof info)) {
    return std::nullopt;
  }
  return SignalInfo{static_cast<int>(info.ssi_signo), static_cast<pid_t>(info.ssi_pid), info.ssi_code, info.ssi_uid};
}

struct SignalWatch::State {
  SignalFd fd;
  boost::asio::posix::stream_descriptor stream;
  std::function<void(SignalInfo const&)> heard;
};

SignalWatch::SignalWatch(boost::asio::io_context& io, std::function<void(SignalInfo const&)> heard)
    : state_(std::make_shared<State>(State{{}, boost::asio::posix::stream_descriptor(io), std::move(heard)})) {}

Result<void> SignalWatch::begin(sigset_t const& signals) {
  auto opened = SignalFd::open(signals);
  if (!opened) {
    return opened.error();
  }
  state_->fd = *std::move(opened);
  state_->stream.assign(fcntl(state_->fd.fd(), F_DUPFD_CLOEXEC, 3));
  await(state_);
  return {};
}

void SignalWatch::await(std::shared_ptr<State> const& watched) {
  using boost::asio::posix::stream_descriptor;
  watched->stream.async_wait(stream_descriptor::wait_read,
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

}  // namespace cxxrun::os
