// A stand-in for cxxrun: an agent under its parent with some workers. undertaken PROBE FIFO WORKERS
//
// Writes "agent PID parent PID" to stdout, then a line for each signal: "signal N terminal|process". TERM ends it
// with code 42, leaving its workers behind. Starts WORKERS probes that start daemons on FIFO.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <string>
#include <unistd.h>

#include "src/os/spawn.hpp"
#include "src/os/undertaker.hpp"

namespace {

int agent(cxxrun::os::AgentSide const& side, std::string const& probe, std::string const& fifo, int workers) {
  auto signals = cxxrun::os::SignalFd::open(side.signals);
  if (!signals) {
    return 1;
  }
  for (int i = 0; i < workers; ++i) {
    cxxrun::os::SpawnRequest request;
    request.path = probe;
    request.argv = {"probe", "daemons", fifo};
    if (!cxxrun::os::spawn(request).ok()) {
      return 1;
    }
  }
  std::printf("agent %d parent %d\n", getpid(), side.parent);
  std::fflush(stdout);
  for (;;) {
    std::array<pollfd, 2> watched{{{signals->fd(), POLLIN, 0}, {side.parent_watch.get(), POLLIN, 0}}};
    poll(watched.data(), watched.size(), -1);
    if (watched[1].revents != 0) {
      cxxrun::os::bury_and_exit();
    }
    while (auto const signal = signals->read()) {
      std::printf("signal %d %s\n", signal->signal, signal->code == SI_KERNEL ? "terminal" : "process");
      std::fflush(stdout);
      if (signal->signal == SIGTERM) {
        return 42;
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    return 2;
  }
  return cxxrun::os::run_under_parent(
      [&](cxxrun::os::AgentSide const& side) { return agent(side, argv[1], argv[2], std::atoi(argv[3])); });
}
