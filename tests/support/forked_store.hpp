// A store in a process of its own, so that the test program keeps one thread and may fork ranks.
#pragma once

#include <csignal>
#include <cstdint>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cxxrun/store.hpp"
#include "src/base/store/store_server.hpp"

namespace cxxrun::test {

class ForkedStore {
 public:
  ForkedStore() {
    int ends[2] = {-1, -1};
    if (pipe(ends) != 0 || (pid_ = fork()) < 0) {
      std::abort();
    }
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      store::StoreServer server;
      std::uint16_t const port = server.open(1, {0, true}).value();
      static_cast<void>(!write(ends[1], &port, sizeof port));
      for (;;) {
        pause();
      }
    }
    static_cast<void>(!read(ends[0], &port_, sizeof port_));
    close(ends[0]);
    close(ends[1]);
  }
  ~ForkedStore() { stop(); }
  ForkedStore(ForkedStore const&) = delete;
  ForkedStore& operator=(ForkedStore const&) = delete;

  [[nodiscard]] StoreAddress address() const { return {"127.0.0.1", port_}; }
  [[nodiscard]] Store client() const { return Store::connect(address(), std::chrono::seconds(30)).value(); }
  void stop() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      pid_ = 0;
    }
  }

 private:
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
};

}  // namespace cxxrun::test
