// A thread of the library's own: the program's signal handlers never run on it.
#pragma once

#include <csignal>
#include <thread>
#include <utility>

namespace cxxrun::os {

template <class Body>
[[nodiscard]] std::thread start_quiet_thread(Body&& body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the thread from its first instruction on
  try {
    std::thread thread(std::forward<Body>(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace cxxrun::os
