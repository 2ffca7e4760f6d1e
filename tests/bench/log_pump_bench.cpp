// log_pump_bench: MB/s of the log pump, side by side with one `cat` per writer. Not a test; run it in a release build.
//
// Four writers, flat out, in three styles. Each figure is the median of some rounds, taken from the first byte to
// the moment when everything is in the files (and on the console). `cat` does the same work without lines.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/support/pump_console.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace): a program, not a header
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kWriters = 4;

struct Style {
  char const* name;
  std::size_t line;  ///< bytes of a line; 0 = lines as a training job logs them
  std::size_t block;
  std::size_t total;  ///< bytes per writer
};

enum class Sink { file, null_console, pipe_console };

/// So many bytes, or a little more, in whole lines.
std::string block_of(Style const& style) {
  std::string block;
  for (int step = 1000; block.size() < style.block; ++step) {
    auto const number = std::to_string(step);
    block += style.line > 0 ? std::string(style.line - 1, 'x') + "\n"
                            : "2026-11-23 22:41:1" + number.substr(3) + "," + number.substr(1) +
                                  " INFO trainer.py:142 [rank 3]: step " + number + ", loss 2.3" + number +
                                  ", 0.12 s, 31.2 GiB in use\n";
  }
  return block;
}

/// A child that writes `style.total` bytes to `fd`.
pid_t start_writer(int fd, Style const& style) {
  pid_t const pid = fork();
  if (pid == 0) {
    std::string const block = block_of(style);
    for (std::size_t done = 0; done < style.total; done += block.size()) {
      if (!write_all(fd, block)) {
        _exit(1);
      }
    }
    _exit(0);
  }
  return pid;
}

pid_t start_cat(int in, std::string const& path) {
  pid_t const pid = fork();
  if (pid == 0) {
    int const out = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    dup2(in, 0);
    dup2(out, 1);
    execlp("cat", "cat", nullptr);
    _exit(127);
  }
  return pid;
}

void reap(std::vector<pid_t> const& pids) {
  for (auto const pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) {
      std::fprintf(stderr, "a child failed: %d\n", status);
      std::exit(1);
    }
  }
}

struct Cost {
  double mb_per_s;
  double cpu_s;  ///< of writers, pump and cats together: steadier than the rate on a busy machine
};

double cpu_seconds() {
  double sum = 0;
  for (int const who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    for (auto const& part : {usage.ru_utime, usage.ru_stime}) {
      sum += static_cast<double>(part.tv_sec) + static_cast<double>(part.tv_usec) / 1e6;
    }
  }
  return sum;
}

template <class Body>
Cost cost_of(Style const& style, Body const& body) {
  auto const from = std::chrono::steady_clock::now();
  double const cpu = cpu_seconds();
  body();
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - from;
  return {static_cast<double>(style.total) * kWriters / 1e6 / took.count(), cpu_seconds() - cpu};
}

Cost cats(Style const& style, TempDir const& dir) {
  return cost_of(style, [&] {
    std::vector<pid_t> pids;
    for (int i = 0; i < kWriters; ++i) {
      auto pipe = make_pipe();
      pids.push_back(start_cat(pipe.read.get(), dir / ("cat" + std::to_string(i))));
      pids.push_back(start_writer(pipe.write.get(), style));
    }
    reap(pids);
  });
}

Cost pump(Style const& style, TempDir const& dir, Sink sink) {
  return cost_of(style, [&] {
    auto console = make_pipe();
    os::UniqueFd const null(open("/dev/null", O_WRONLY | O_CLOEXEC));
    int const to = sink == Sink::pipe_console ? console.write.get() : null.get();
    auto const reader = start_cat(console.read.get(), "/dev/null");
    console.read.reset();
    std::vector<pid_t> pids;
    {
      launcher::LogPump logs(to, to);
      for (int i = 0; i < kWriters; ++i) {
        auto pipe = make_pipe();
        pids.push_back(start_writer(pipe.write.get(), style));
        logs.add({std::move(pipe.read), dir / ("pump" + std::to_string(i)), sink != Sink::file, false,
                  "[node1:" + std::to_string(i) + "] ", true});
      }
      reap(pids);
      if (!logs.finish(60'000)) {
        std::exit(1);
      }
    }
    console.write.reset();
    reap({reader});
  });
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One line of the table. The variants take turns, so that a busy machine is unfair to none of them.
void measure(Style const& style, int rounds) {
  std::array<std::vector<double>, 4> rates;
  std::array<std::vector<double>, 4> ratios;
  std::array<std::vector<double>, 4> cpus;
  for (int round = 0; round < rounds; ++round) {
    Cost cat{};
    for (std::size_t variant = 0; variant < rates.size(); ++variant) {
      TempDir const dir;
      auto const cost = variant == 0 ? cats(style, dir) : pump(style, dir, static_cast<Sink>(variant - 1));
      cat = variant == 0 ? cost : cat;
      rates[variant].push_back(cost.mb_per_s);
      ratios[variant].push_back(cost.mb_per_s / cat.mb_per_s);
      cpus[variant].push_back(cost.cpu_s / cat.cpu_s);
    }
  }
  std::printf("| %-27s |", style.name);
  for (std::size_t variant = 0; variant < rates.size(); ++variant) {
    std::printf(" %4.0f %4.2f %4.2f |", median(rates[variant]), median(ratios[variant]), median(cpus[variant]));
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int const rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  std::array<Style, 4> const styles{{{"64 B lines, one write each", 64, 64, 32 * kMiB},
                                     {"64 B lines, 64 KiB writes", 64, 65536, 256 * kMiB},
                                     {"4 KiB lines, 64 KiB writes", 4096, 65536, 256 * kMiB},
                                     {"log lines, 64 KiB writes", 0, 65536, 256 * kMiB}}};
  std::printf("MB/s, rate / rate of cat, CPU time / CPU time of cat; medians of %d rounds\n\n", rounds);
  std::printf("| %-27s | %-14s | %-14s | %-14s | %-14s |\n|---|---|---|---|---|\n", "4 writers", "4 x cat > file",
              "file", "file+/dev/null", "file+console");
  for (auto const& style : styles) {
    measure(style, rounds);
  }
  return 0;
}
