#include "src/client/interruption.hpp"

#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <thread>
#include <utility>

#include "cxxrun/failure.hpp"
#include "src/os/poll_time.hpp"

namespace cxxrun::client {
namespace {

thread_local Interruption const* current = nullptr;

void wait_readable(int fd, TimePoint until) {
  for (int left = os::poll_time(until); left > 0; left = os::poll_time(until)) {
    pollfd entry{fd, POLLIN, 0};
    if (::poll(&entry, 1, left) > 0) {
      return;
    }
  }
}

}  // namespace

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
  if (!raised()) {
    wait_readable(event_.get(), Clock::now() + most);
  }
  return raised();
}

Interruptible::Interruptible(Interruption const* by) noexcept : before_(std::exchange(current, by)) {}

Interruptible::~Interruptible() {
  current = before_;
}

bool Interruptible::interrupted() noexcept {
  return current != nullptr && current->raised();
}

int Interruptible::event() noexcept {
  return current == nullptr ? -1 : current->event_.get();
}

void Interruptible::pause(Millis time) {
  if (current == nullptr) {
    std::this_thread::sleep_for(time);
  } else {
    static_cast<void>(current->wait(time));
  }
}

}  // namespace cxxrun::client
