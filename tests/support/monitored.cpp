// A stand-in for cxxrun: an agent under its parent with some workers.
// monitored PROBE FIFO WORKERS [LEASE_MS [WORDS RECIPIENT_PORT…]]
// monitored PROBE FIFO WORKERS hold HOLD_MS [release]
//
// With `hold` it listens at a port, which is kept for so long, and says "held PORT"; `release`: and takes it back.
// With a lease it holds one of that length and never renews it; 0: none. WORDS are its last, for 127.0.0.1 at the
// ports. Writes "agent PID parent PID" to stdout, then a line for each signal: "signal N terminal|process". TERM ends
// it with code 42, leaving its workers behind. Starts WORKERS probes that start daemons on FIFO.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "src/base/os/local_address.hpp"
#include "src/base/os/monitor.hpp"
#include "src/base/os/spawn.hpp"
#include "src/base/os/tcp_sockets.hpp"

/// LeakSanitizer looks at a process that ends by way of another one, which stops all its threads. That one is a
/// descendant of the agent's: the parent kills it when the lease is over, and the agent stays stopped.
extern "C" int __lsan_is_turned_off() {  // NOLINT(bugprone-reserved-identifier): its name
  return 1;
}

namespace {

using cxxrun::Clock;
using cxxrun::Millis;

struct Words {
  int lease = 0;
  std::string text;
  std::vector<cxxrun::os::Recipient> recipients;
  int hold = 0;
  bool release = false;
};

int agent(cxxrun::os::AgentSide const& side, std::string const& probe, std::string const& fifo, int workers,
          Words const& words) {
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
  if (words.lease > 0) {
    side.page->set_terms({Millis{words.lease}, Millis{words.lease}});
    side.page->hold_lease(Clock::now() + Millis{words.lease});
  }
  if (!words.recipients.empty()) {
    side.page->write_death_notice({{"127.0.0.1", 1}}, "an older one");
    side.page->write_death_notice(words.recipients, words.text);
  }
  std::printf("agent %d parent %d standby %d\n", getpid(), side.parent, cxxrun::os::port_of(side.standby.get()));
  cxxrun::Result<cxxrun::os::Listening> held = cxxrun::os::Listening{};
  if (words.hold > 0) {
    held = cxxrun::os::listen_at({});
    if (!held || !side.keeper->keep(held->sockets.front().get(), Millis{words.hold})) {
      return 1;
    }
    std::printf("held %d\n", held->port);
  }
  if (words.release) {
    side.keeper->release();
  }
  std::fflush(stdout);
  for (;;) {
    std::array<pollfd, 2> watched{{{signals->fd(), POLLIN, 0}, {side.parent_watch.get(), POLLIN, 0}}};
    poll(watched.data(), watched.size(), -1);
    if (watched[1].revents != 0) {
      cxxrun::os::sweep_and_exit(side);
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
  if (argc < 4) {
    return 2;
  }
  Words words;
  bool const holds = argc > 5 && std::string(argv[4]) == "hold";
  words.hold = holds ? std::atoi(argv[5]) : 0;
  words.release = holds && argc > 6;
  words.lease = argc > 4 && !holds ? std::atoi(argv[4]) : 0;
  words.text = argc > 5 && !holds ? argv[5] : "";
  for (int i = 6; i < argc && !holds; ++i) {
    words.recipients.push_back({"127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[i]))});
  }
  auto standby = cxxrun::os::open_standby();
  if (!standby) {
    return 2;
  }
  auto const code = cxxrun::os::run_under_parent(
      [&](cxxrun::os::AgentSide const& side) { return agent(side, argv[1], argv[2], std::atoi(argv[3]), words); },
      *std::move(standby));
  return code ? *code : 2;
}
