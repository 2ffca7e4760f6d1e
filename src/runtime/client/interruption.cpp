#include "src/runtime/client/interruption.hpp"

#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>

#include "cxxrun/failure.hpp"
#include "src/base/os/fd.hpp"

namespace cxxrun::client {

thread_local Interruption const* Interruptible::current = nullptr;

Interruption::Interruption() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) {
    throw Failure(fail(Errc::io, "cannot make a descriptor for waiting", errno));
  }
}

void Interruption::raise() noexcept {
  raised_.store(true, std::memory_order_release);
  static_cast<void>(::eventfd_write(event_.get(), 1));
}

bool Interruption::wait(Millis most) const {
  return raised() || Interruptible::ready(event_.get(), POLLIN, Clock::now() + most);
}

bool Interruptible::ready(int fd, short events, TimePoint deadline) {
  for (;;) {
    int const left = os::poll_time(deadline);
    std::array<pollfd, 2> watched{{{fd, events, 0}, {current == nullptr ? -1 : current->event_.get(), POLLIN, 0}}};
    int const n = ::poll(watched.data(), watched.size(), left);
    if (n > 0 && watched[0].revents != 0) {
      return true;
    }
    if (n > 0 || (left == 0 && n == 0)) {
      return false;
    }
  }
}

}  // namespace cxxrun::client
