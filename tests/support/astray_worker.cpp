// A worker that trains nothing: each of 20 steps is one all_reduce of 25 floats. Usage: astray_worker HOW [RANK FACTOR]
//
//   astray    rank 3 of the first generation does not come to its ninth step
//   stopped   it stops itself (SIGSTOP) instead
//   saves     rank 0 saves checkpoints there, in $DIR/saved, for 20 ms and more
//   late      each sleeps for 50 ms in a step, as if it computed, and RANK for FACTOR times as long; without an end
// It notes "GENERATION RANK WORD…" in $DIR/events: `begins PID` in the first generation, `astray PID`, and
// `finished PID SUM` at the end.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>

#include "cxxrun/checkpoint.hpp"
#include "cxxrun/elastic.hpp"

namespace {

constexpr std::uint64_t kSteps = 20;
constexpr std::uint64_t kAstray = 8;
constexpr std::chrono::duration<double, std::milli> kComputing{50};

std::string path_of(char const* name) {
  return std::string(std::getenv("DIR")) + "/" + name;  // NOLINT(concurrency-mt-unsafe)
}

void note(cxxrun::Communicator const& comm, std::string const& words) {
  std::FILE* const file = std::fopen(path_of("events").c_str(), "ae");
  std::fprintf(file, "%llu %d %s\n", static_cast<unsigned long long>(comm.generation()), comm.rank(), words.c_str());
  std::fclose(file);
}

class Sums final : public cxxrun::ElasticTask {
 public:
  Sums(std::string_view how, int late, double factor) : how_(how), late_(late), factor_(factor) {}

  [[nodiscard]] std::uint64_t completed() const override { return state_.step; }
  void attach(cxxrun::Communicator& comm) override {
    arena_ = comm.arena(4096);
    values_ = arena_.allocate<float>(25);
  }
  void share(cxxrun::Communicator& comm, int donor) override {
    comm.broadcast(&state_, sizeof state_, cxxrun::DType::u8, donor);
  }

  [[nodiscard]] bool step(cxxrun::Communicator& comm) override {
    if (comm.generation() == 1 && state_.step == 0) {
      note(comm, "begins " + std::to_string(getpid()));
    }
    if (how_ == "late") {
      std::this_thread::sleep_for(kComputing * (comm.rank() == late_ ? factor_ : 1));
    } else if (how_ == "saves" && comm.rank() == 0 && state_.step == kAstray) {
      save(comm);
    } else if (how_ != "saves" && comm.generation() == 1 && comm.rank() == 3 && state_.step == kAstray) {
      go_astray(comm);
    }
    std::fill(values_.begin(), values_.end(), static_cast<float>(comm.rank() + 1));
    comm.all_reduce(values_);
    ++state_.step;
    state_.sum += static_cast<std::uint64_t>(values_.back());
    if (how_ == "late") {
      return true;
    }
    if (state_.step == kSteps) {
      note(comm, "finished " + std::to_string(getpid()) + " " + std::to_string(state_.sum));
    }
    return state_.step < kSteps;
  }

 private:
  void save(cxxrun::Communicator const& comm) const {
    cxxrun::Checkpoint checkpoint({.directory = path_of("saved"), .model = "sums"}, comm.generation());
    auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    do {
      checkpoint.save(state_.step, {});
    } while (std::chrono::steady_clock::now() < until);
  }

  void go_astray(cxxrun::Communicator const& comm) {
    note(comm, "astray " + std::to_string(getpid()));
    if (how_ == "stopped") {
      std::raise(SIGSTOP);
    }
    for (;;) {
      pause();
    }
  }

  struct State {
    std::uint64_t step = 0;
    std::uint64_t sum = 0;
  };
  std::string_view how_;
  int late_;
  double factor_;
  State state_;
  cxxrun::Arena arena_;
  std::span<float> values_;
};

}  // namespace

int main(int count, char** words) {
  Sums sums(count > 1 ? words[1] : "", count > 3 ? std::atoi(words[2]) : -1, count > 3 ? std::atof(words[3]) : 1);
  cxxrun::Communicator::Options options;
  options.backend = cxxrun::Backend::host;
  try {
    cxxrun::run_elastic(sums, options);
    return 0;
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "astray_worker: %s\n", failure.what());
    return 1;
  }
}
