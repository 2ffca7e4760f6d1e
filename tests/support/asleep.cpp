// Linked into a worker: from SIGUSR1 on its main thread sleeps for ever, in whatever it was about.
#include <csignal>
#include <unistd.h>

namespace {

void sleep_for_ever(int /*signal*/) {
  for (;;) {
    pause();
  }
}

[[maybe_unused]] auto const before = std::signal(SIGUSR1, sleep_for_ever);

}  // namespace
