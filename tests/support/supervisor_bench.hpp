// A real Supervisor and its workers in a test: starting a generation, and running until it has reported what is
// awaited.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "launcher/logs/log_pump.hpp"
#include "launcher/workers/supervisor.hpp"
#include "src/base/os/children.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/process_bench.hpp"

namespace cxxrun::test {

/// What the supervisor reports at the end of a generation.
struct Ended {
  std::uint64_t generation = 0;
  std::vector<rendezvous::WorkerExit> exits;
  std::vector<std::string> unkillable;
  bool waiting = false;
};

/// A Supervisor with everything it needs, and what it has reported. Its io_context runs only in run_*().
struct SupervisorBench final : launcher::SupervisorInbox {
  TempDir directory;
  Fifo fifo{directory.file("fifo")};
  boost::asio::io_context io;
  launcher::LogPump pump;
  std::vector<rendezvous::WorkerExit> exited;
  std::optional<Ended> ended;
  std::size_t parked = 0;  // workers that have parked while their generation ran
  std::shared_ptr<launcher::Supervisor> supervisor;

  SupervisorBench() {
    os::become_subreaper();
    supervisor = std::make_shared<launcher::Supervisor>(io, pump, *this);
  }

  void on_worker_exit(std::uint64_t /*generation*/, rendezvous::WorkerExit exit) override { exited.push_back(exit); }
  void on_generation_ended(std::uint64_t generation, std::vector<rendezvous::WorkerExit> exits,
                           std::vector<std::string> unkillable, bool waiting, bool /*lacks*/) override {
    ended = Ended{generation, exits, unkillable, waiting};
  }
  void on_filled(std::uint64_t /*generation*/, bool /*whole*/) override {}
  void on_worker_parked(std::uint64_t /*generation*/, rendezvous::Named /*named*/) override { ++parked; }

  static launcher::WorkerSpec worker(std::vector<std::string> argv) {
    launcher::WorkerSpec spec;
    spec.argv = std::move(argv);
    spec.environment = {"PATH=/usr/bin:/bin"};
    spec.out.console = false;
    spec.err.console = false;
    return spec;
  }
  static launcher::WorkerSpec shell(std::string const& script) { return worker({"sh", "-c", script}); }
  [[nodiscard]] launcher::WorkerSpec probe(std::string const& command) const {
    return worker({CXXRUN_PROBE, command, fifo.path()});
  }

  void start(std::vector<launcher::WorkerSpec> specs, std::uint64_t generation = 1) {
    for (std::uint32_t i = 0; i < specs.size(); ++i) {
      specs[i].local_rank = i;
      specs[i].rank = 10 + i;
    }
    ended.reset();
    exited.clear();
    supervisor->start(generation, specs);
  }
  template <class Condition>
  void run_until(Condition condition) {
    auto const limit = Clock::now() + kGuard;
    while (!condition()) {
      REQUIRE(Clock::now() < limit);
      io.run_one_until(limit);
    }
  }
  Ended const& run_to_the_end() {
    run_until([this] { return ended.has_value(); });
    return *ended;
  }
  void run_until_exits(std::size_t count) {
    run_until([&] { return exited.size() >= count; });
  }
};

/// SIGTERM, and SIGKILL after `grace`.
inline launcher::StopOrder order(std::chrono::milliseconds grace) {
  return {SIGTERM, true, grace, std::chrono::seconds{20}};
}

}  // namespace cxxrun::test
