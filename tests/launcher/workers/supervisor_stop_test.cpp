// Which processes of a worker get the signal of a stop, and what happens to the processes that workers leave behind.
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <boost/asio/post.hpp>

#include "src/base/os/children.hpp"
#include "src/base/os/process_info.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/supervisor_bench.hpp"

using namespace cxxrun;
using namespace cxxrun::launcher;
using namespace cxxrun::test;
using namespace std::chrono_literals;

namespace {

using Bench = SupervisorBench;

std::string saving(Bench const& bench) {
  return std::string(CXXRUN_PROBE) + " save " + bench.fifo.path();
}

pid_t await_asked(Bench& bench) {
  std::string const line = bench.fifo.line();
  REQUIRE(line.starts_with("asked "));
  return std::stoi(line.substr(6));
}

// The program is asked once and saves with the help of its helper, however long that takes.
void check_stop(Bench& bench) {
  bench.supervisor->stop(order(1h));
  kill(await_asked(bench), SIGUSR1);
  CHECK(bench.fifo.line() == "saved");
  bench.run_to_the_end();
  bench.fifo.wait_until_all_are_dead();
  CHECK_FALSE(os::has_children());
}

void check_save(Bench& bench) {
  REQUIRE(bench.fifo.line() == "ready");
  check_stop(bench);
}

/// While it exists, the pump does nothing: a log's file system hangs.
struct HeldPump {
  explicit HeldPump(LogPump& pump) {
    pump.drain(0, false, [this](LastWords const&) {
      held.count_down();
      released.wait();
      done.count_down();
    });
    held.wait();
  }
  ~HeldPump() { release(); }
  HeldPump(HeldPump const&) = delete;
  HeldPump& operator=(HeldPump const&) = delete;
  void release() {
    if (!released.try_wait()) {
      released.count_down();
    }
    done.wait();
  }

  std::latch held{1}, released{1}, done{1};
};

/// Worker 0 has parked, worker 1 has failed, and the generation has ended but for the last words of worker 1, which the
/// pump has not read: whose `ended` is due.
struct Parted {
  Bench bench;
  std::optional<HeldPump> hold;

  explicit Parted(std::string const& how) {
    for (char const* const gate : {"fail", "linger"}) {
      mkfifo(bench.directory.file(gate).c_str(), 0600);
    }
    auto survivor = Bench::worker({CXXRUN_SURVIVOR_WORKER, "early=10", how});
    survivor.environment = {"CXXRUN_AGENT=" + bench.supervisor->socket(), "RANK=10", "CXXRUN_GENERATION=1",
                            "DIR=" + bench.directory.path()};
    bench.start({survivor, Bench::shell("echo because >&2; read line <" + bench.directory.file("fail") + "; exit 3")});
    bench.run_until([this] { return bench.parked == 1; });
    hold.emplace(bench.pump);
    open_gate("fail");
    bench.run_until_exits(1);
    auto parking = order(1h);
    parking.park = true;
    bench.supervisor->stop(parking);
  }

  /// Lets the process go on that reads from this FIFO, once it does.
  void open_gate(char const* name) const { close(open(bench.directory.file(name).c_str(), O_WRONLY | O_CLOEXEC)); }
  /// The pump goes on, and the supervisor hears of it.
  void release() {
    hold->release();
    auto const drained = std::make_shared<bool>(false);
    bench.pump.drain(
        0, false, [this, drained](LastWords const&) { boost::asio::post(bench.io, [drained] { *drained = true; }); });
    bench.run_until([&] { return *drained; });
    bench.io.poll();
  }

  void check_end() {
    bench.run_to_the_end();
    CHECK_FALSE(bench.ended->waiting);
    REQUIRE(bench.ended->exits.size() == 1);
    CHECK(bench.ended->exits[0].rank == 11);
    CHECK(bench.ended->exits[0].status == ExitStatus::exited(3));
    CHECK(bench.ended->exits[0].stderr_tail == "because\n");
    CHECK_FALSE(os::has_children());
  }
};

}  // namespace

TEST_CASE("supervisor: a program that is asked to end has its helpers until it has saved", "[process]") {
  Bench bench;
  bench.start({bench.probe("save")});
  check_save(bench);
  CHECK(bench.ended->exits[0].status == ExitStatus::exited(7));
  CHECK(bench.ended->exits[0].ours);
}

TEST_CASE("supervisor: a program behind a wrapper is asked as if there were none", "[process]") {
  auto const [what, before, after] = GENERATE(table<char const*, char const*, char const*>({
      {"a shell", "", "; exit $?"},
      {"a shell in a shell", "sh -c '", "; exit $?'; exit $?"},
      {"a shell with a trap", "trap 'exit 5' TERM; ", "; exit $?"},
      {"a shell that ignores the signal", "trap '' TERM; ", "; exit $?"},
      {"a session of its own", "setsid --wait ", "; exit $?"},
      {"a wrapper that hands the signal on", "exec timeout --foreground 1000 ", ""},
  }));
  INFO(what);
  Bench bench;
  bench.start({Bench::shell(before + saving(bench) + after)});
  check_save(bench);
}

TEST_CASE("supervisor: a program that its wrapper leaves behind keeps its helpers and the whole grace", "[process]") {
  std::string const session = GENERATE("", "setsid --wait ");  // its worker's, or one of its own
  Bench bench;
  bench.start({Bench::shell(session + saving(bench) + "; exit $?"), bench.probe("wait")});
  bench.fifo.expect_lines(2);
  bench.supervisor->stop(order(1h));
  pid_t const program = await_asked(bench);
  bench.run_until_exits(2);
  CHECK(bench.exited[0].status == ExitStatus::signalled(SIGTERM));
  CHECK_FALSE(bench.ended);

  kill(program, SIGUSR1);

  CHECK(bench.fifo.line() == "saved");
  CHECK(bench.run_to_the_end().exits[0].ours);
}

TEST_CASE("supervisor: a program whose wrapper was killed by somebody else is asked by the stop that follows",
          "[process]") {
  Bench bench;
  bench.start({Bench::shell(saving(bench) + "; exit $?")});
  REQUIRE(bench.fifo.line() == "ready");
  kill(os::children_of(getpid()).front(), SIGTERM);
  bench.run_until_exits(1);
  CHECK_FALSE(bench.exited[0].ours);
  check_stop(bench);
}

TEST_CASE("supervisor: what does not end with its worker has half a second, not the grace", "[process]") {
  Bench bench;
  std::string const child = std::string(CXXRUN_PROBE) + " wait " + bench.fifo.path();
  bench.start({Bench::shell("(trap '' TERM; exec " + child + ") & exec " + child), bench.probe("daemons")});
  bench.fifo.expect_lines(5);

  bench.supervisor->stop(order(1h));
  bench.run_to_the_end();

  bench.fifo.wait_until_all_are_dead();
  CHECK_FALSE(os::has_children());
}

TEST_CASE("supervisor: daemons of the workers die at a stop", "[process]") {
  Bench bench;
  bench.start({bench.probe("daemons"), bench.probe("daemons")});
  bench.fifo.expect_lines(6);

  bench.supervisor->stop(order(100ms));  // one daemon in two ignores SIGTERM
  bench.run_to_the_end();

  CHECK_FALSE(os::has_children());
  bench.fifo.wait_until_all_are_dead();
}

TEST_CASE("supervisor: daemons left behind by workers that succeed die too", "[process]") {
  Bench bench;
  bench.start({bench.probe("leave")});
  bench.fifo.expect_lines(2);

  CHECK(bench.run_to_the_end().exits[0].status.ok());

  CHECK_FALSE(os::has_children());
  bench.fifo.wait_until_all_are_dead();
}

// Workers and orphans end at the same time. Each exit has to be taken by its pid, or an orphan's may be a worker's.
TEST_CASE("supervisor: no exit is lost among those of orphans", "[process]") {
  Bench bench;
  for (std::uint64_t generation = 1; generation <= 20; ++generation) {
    std::vector<WorkerSpec> workers;
    for (int orphans = 0; orphans < 40; ++orphans) {
      workers.push_back(Bench::worker({CXXRUN_PROBE, "orphans", std::to_string(orphans)}));
    }
    bench.start(std::move(workers), generation);
    REQUIRE(bench.run_to_the_end().exits.size() == 40);
  }
}

TEST_CASE("supervisor: workers that wait are stopped before the end of their generation is reported", "[process]") {
  Parted parted("");
  parted.bench.supervisor->stop(order(1h));
  parted.bench.run_until([&] { return parted.bench.supervisor->pid_of(0) == 0; });
  parted.release();
  parted.check_end();
}

TEST_CASE("supervisor: no end is reported while a worker that waited is still being stopped", "[process]") {
  Parted parted("lingers=10");
  parted.bench.supervisor->stop(order(1h));
  parted.release();
  CHECK_FALSE(parted.bench.ended);
  CHECK(parted.bench.supervisor->pid_of(0) != 0);
  parted.open_gate("linger");
  parted.check_end();
}

// The worker waits for the warm Python, which imports; a kill of their generation does not thaw it.
TEST_CASE("supervisor: a warm Python that was frozen while it imports serves the next generation", "[process]") {
  Bench bench;
  auto const gate = bench.directory.file("gate");
  mkfifo(gate.c_str(), 0600);
  os::UniqueFd const opener(open(gate.c_str(), O_RDWR | O_CLOEXEC));
  std::ofstream(bench.directory.file("slow.py")) << "open('" << gate << "', 'rb', 0).read(1)\n";
  std::ofstream(bench.directory.file("train.py")) << "\n";
  auto worker = Bench::worker({"python3", bench.directory.file("train.py")});
  worker.environment.push_back("PYTHONPATH=" + bench.directory.path());
  bench.supervisor->warm_up(worker, "slow");
  bench.start({worker});
  bench.supervisor->freeze();
  bench.supervisor->stop(order(0ms));
  bench.run_to_the_end();

  bench.start({worker}, 2);
  REQUIRE(write(opener.get(), "x", 1) == 1);

  CHECK(bench.run_to_the_end().exits[0].status.ok());
}
