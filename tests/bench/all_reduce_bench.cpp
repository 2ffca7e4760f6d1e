// Measures the host backend within one node, and what it is compared with. One figure per line, in microseconds.
//
//   all_reduce_bench arena|private RANKS BYTES REPETITIONS [f16|bf16]
//                                                            one all_reduce, of f32 if nothing else is said
//   all_reduce_bench memcpy RANKS BYTES REPETITIONS          every process copies BYTES, all at once
//   all_reduce_bench kill RANKS BYTES REPETITIONS            SIGKILL of a rank that holds BYTES resident, while the
//                                                            ranks reduce: until the last survivor has thrown
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "cxxrun/failure.hpp"
#include "tests/support/node_world.hpp"
#include "tests/support/shared.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using cxxrun::comm::Call;
using cxxrun::comm::Kind;
using cxxrun::test::NodeWorld;

struct Task {
  std::string what;
  int ranks = 2;
  std::size_t bytes = 0;
  int repetitions = 0;
  cxxrun::DType type = cxxrun::DType::f32;
};

struct Board {
  std::atomic<int> ready{0};
  std::atomic<std::int64_t> killed_at{0};
  std::array<std::atomic<std::int64_t>, 64> thrown_at{};
};

std::int64_t now() {
  return Clock::now().time_since_epoch().count();
}
double microseconds(std::int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / 1000;
}

bool enough_cpus(int ranks) {
  return sysconf(_SC_NPROCESSORS_ONLN) >= ranks;
}

/// Each rank on a CPU of its own, where there are enough, as cxxrun binds workers under Slurm.
void bind(int ranks, int rank) {
  if (!enough_cpus(ranks)) {
    return;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(rank), &one);
  sched_setaffinity(0, sizeof one, &one);
}

/// Rank 0 prints how long each round took it; rounds begin together.
void measure(cxxrun::host::Backend& backend, Task const& task, int rank) {
  std::size_t const count = std::max<std::size_t>(task.bytes / sizeof(float), 1);
  std::vector<float> from(task.what == "arena" ? 0 : count, 1.0F);
  std::vector<float> to(task.what == "memcpy" ? count : 0, 1.0F);
  float* const data =
      task.what == "arena" ? reinterpret_cast<float*>(backend.allocate(count * sizeof(float))) : from.data();
  std::fill(data, data + count, 1.0F);
  std::size_t const elements = count * (task.type == cxxrun::DType::f32 ? 1 : 2);
  Call const reduce{.kind = Kind::all_reduce, .type = task.type, .count = elements, .in = data, .out = data};
  // What is short is measured many at a time: a barrier takes as long.
  int const batch = count * sizeof(float) <= 4096 ? 200 : 1;
  for (int i = -3; i < task.repetitions; ++i) {
    backend.run({.kind = Kind::barrier});
    auto const begin = now();
    for (int k = 0; k < batch; ++k) {
      if (task.what == "memcpy") {
        std::memcpy(to.data(), from.data(), count * sizeof(float));
      } else {
        backend.run(reduce);
      }
    }
    if (task.what == "memcpy") {
      backend.run({.kind = Kind::barrier});
    }
    if (i >= 0 && rank == 0) {
      std::printf("%.2f\n", microseconds(now() - begin) / batch);
    }
  }
  std::fflush(stdout);
  backend.run({.kind = Kind::barrier});
}

int in_one_world(Task const& task) {
  NodeWorld world({task.ranks}, enough_cpus(task.ranks));
  for (int rank = 0; rank < task.ranks; ++rank) {
    if (fork() == 0) {
      bind(task.ranks, rank);
      measure(*world.join(rank), task, rank);
      _exit(0);
    }
  }
  int failed = 0;
  for (int status = 0; wait(&status) > 0;) {
    failed |= status;
  }
  return failed == 0 ? 0 : 1;
}

Board* board_of_victim = nullptr;

/// SIGKILL from a timer of the victim's own, at any moment of a call. A killer of its own would need a CPU, and where
/// there is none to spare it is the scheduler that is measured: who puts whom aside, and when it notices an idle CPU.
void be_killed_soon(Board& board) {
  board_of_victim = &board;
  signal(SIGALRM, [](int) {
    board_of_victim->killed_at = now();
    kill(getpid(), SIGKILL);
  });
  itimerval const soon{{0, 0}, {0, 1000 + rand() % 3000}};
  setitimer(ITIMER_REAL, &soon, nullptr);
}

/// The victim is the last rank. Everybody reduces 1 MiB again and again until it is killed.
[[noreturn]] void be_killed_or_throw(NodeWorld& world, Task const& task, Board& board, int rank) {
  bind(task.ranks, rank);
  bool const victim = rank == task.ranks - 1;
  std::vector<char> const resident(victim ? task.bytes : 0, 'x');
  std::vector<float> data(std::size_t{1} << 18);
  auto const backend = world.join(rank);
  try {
    for (int i = 0;; ++i) {
      backend->run({.kind = Kind::all_reduce,
                    .type = cxxrun::DType::f32,
                    .count = data.size(),
                    .in = data.data(),
                    .out = data.data()});
      board.ready += i == 3 ? 1 : 0;
      if (victim && board.ready == task.ranks && board_of_victim == nullptr) {
        be_killed_soon(board);
      }
    }
  } catch (cxxrun::PeerFailure const& failure) {
    bool const right = failure.rank() == task.ranks - 1 && failure.why() == cxxrun::PeerFailure::Why::died;
    board.thrown_at[static_cast<std::size_t>(rank)] = right ? now() : -1;
  }
  _exit(0);
}

int kill_one(Task const& task) {
  NodeWorld world({task.ranks}, enough_cpus(task.ranks));
  Board& board = cxxrun::test::shared<Board>();
  std::vector<pid_t> pids;
  for (int rank = 0; rank < task.ranks; ++rank) {
    pids.push_back(fork());
    if (pids.back() == 0) {
      be_killed_or_throw(world, task, board, rank);
    }
  }
  static_cast<void>(rand());  // the children inherit where its sequence is
  for (pid_t const pid : pids) {
    waitpid(pid, nullptr, 0);
  }
  std::int64_t last = 0;
  for (int rank = 0; rank + 1 < task.ranks; ++rank) {
    auto const at = board.thrown_at[static_cast<std::size_t>(rank)].load();
    if (at <= 0) {
      std::fprintf(stderr, "rank %d did not throw what it should\n", rank);
      return 1;
    }
    last = std::max(last, at);
  }
  std::printf("%.2f\n", microseconds(last - board.killed_at));
  std::fflush(stdout);
  munmap(&board, sizeof board);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string const type = argc > 5 ? argv[5] : "f32";
  if (argc < 5 || argc > 6 || (type != "f32" && type != "f16" && type != "bf16")) {
    std::fprintf(stderr, "usage: all_reduce_bench arena|private|memcpy|kill RANKS BYTES REPETITIONS [f16|bf16]\n");
    return 2;
  }
  Task const task{argv[1], std::atoi(argv[2]), std::strtoull(argv[3], nullptr, 10), std::atoi(argv[4]),
                  type == "f16"    ? cxxrun::DType::f16
                  : type == "bf16" ? cxxrun::DType::bf16
                                   : cxxrun::DType::f32};
  if (task.what != "kill") {
    return in_one_world(task);
  }
  for (int i = 0; i < task.repetitions; ++i) {
    if (kill_one(task) != 0) {
      return 1;
    }
  }
  return 0;
}
