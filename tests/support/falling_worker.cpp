// A trainer of which one rank falls in the first generation, in the middle of a step: falling_worker HOW RANK [plain].
//
//   throw   an exception that main() catches: the process unwinds, says why and exits with 4
//   exit    exits with 3             exit0   exits with 0
//   abort   abort()                  hang    computes for ever            halt   stops itself (SIGSTOP)
// plain: not one that survives; it exits with 75 when a peer fails.
//
// falling_worker shrink: none falls by itself, and others need not wait for one that has died (Options::shrink). Each
// counts how often all have learned from a sample, until an epoch is over and the file $DIR/finish is there. Before it
// meets the others it waits at the gate `start`, if there is one (a FIFO in $DIR).
//
// Notes "GENERATION RANK WORD PID WORLD TIME" (seconds of CLOCK_BOOTTIME) in $DIR/events: `up` and `stepped` once in
// each generation, `falls`.
#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>

#include "cxxrun/elastic.hpp"
#include "cxxrun/elastic_sampler.hpp"
#include "cxxrun/failure.hpp"
#include "src/base/core/time.hpp"

namespace {

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kFalls = 5;
constexpr std::uint64_t kSteps = 20;
constexpr std::size_t kSamples = 509;
constexpr std::size_t kBatch = 12;  // of all ranks

std::string path_of(char const* name) {
  return std::string(std::getenv("DIR")) + "/" + name;  // NOLINT(concurrency-mt-unsafe)
}

void note(Communicator& comm, char const* word) {
  auto const now = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  std::string const line = std::to_string(comm.generation()) + " " + std::to_string(comm.rank()) + " " + word + " " +
                           std::to_string(getpid()) + " " + std::to_string(comm.world_size()) + " " +
                           std::to_string(now) + "\n";
  int const fd = open(path_of("events").c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (write(fd, line.data(), line.size()) < 0) {
    std::abort();
  }
  close(fd);
}

void fall(std::string const& how) {
  if (how == "throw") {
    throw std::runtime_error("the data are wrong");
  }
  if (how == "exit" || how == "exit0") {
    std::exit(how == "exit" ? 3 : 0);  // NOLINT(concurrency-mt-unsafe)
  }
  if (how == "abort") {
    std::abort();
  }
  if (how == "halt") {
    (void)raise(SIGSTOP);
  }
  for (;;) {
    pause();
  }
}

class Trainer : public ElasticTask {
 public:
  Trainer(std::string how, int rank) : how_(std::move(how)), rank_(rank) {}

  [[nodiscard]] std::uint64_t completed() const override { return completed_; }
  void attach(Communicator& comm) override {
    note(comm, "up");
    fresh_ = true;
  }
  void share(Communicator& comm, int donor) override {
    comm.broadcast(&completed_, sizeof completed_, DType::u8, donor);
    comm.broadcast(&state_, sizeof state_, DType::u8, donor);
  }
  [[nodiscard]] bool step(Communicator& comm) override {
    if (comm.generation() == 1 && comm.rank() == rank_ && completed_ == kFalls) {
      note(comm, "falls");
      fall(how_);
    }
    auto sum = static_cast<double>(completed_ * 10 + static_cast<std::uint64_t>(comm.rank()));
    comm.all_reduce(&sum, &sum, 1, DType::f64, ReduceOp::sum);
    state_ += sum;
    ++completed_;
    if (std::exchange(fresh_, false)) {
      note(comm, "stepped");
    }
    return completed_ < kSteps;
  }
  [[nodiscard]] double state() const { return state_; }

 private:
  std::string how_;
  int rank_;
  std::uint64_t completed_ = 0;
  double state_ = 0;
  bool fresh_ = true;
};

class Counter : public ElasticTask {
 public:
  [[nodiscard]] std::uint64_t completed() const override { return state_.steps; }
  void attach(Communicator& comm) override {
    note(comm, "up");
    fresh_ = true;
    sampler_.restore(state_.sampler);  // a step that failed has taken samples
  }
  void share(Communicator& comm, int donor) override {
    comm.broadcast(&state_, sizeof state_, DType::u8, donor);
    sampler_.restore(state_.sampler);
  }
  [[nodiscard]] bool step(Communicator& comm) override {
    if (sampler_.done()) {
      sampler_.next_epoch();
    }
    std::array<std::int32_t, kSamples + 1> learned{};  // the last one counts who wants to finish
    for (std::uint64_t const sample : sampler_.next_shared(comm.rank(), comm.world_size(), kBatch)) {
      ++learned.at(sample);
    }
    learned.back() = access(path_of("finish").c_str(), F_OK) == 0 ? 1 : 0;
    comm.all_reduce(std::span<std::int32_t>(learned));
    std::transform(learned.begin(), learned.end() - 1, state_.times.begin(), state_.times.begin(), std::plus{});
    state_.sampler = sampler_.state();
    ++state_.steps;
    if (std::exchange(fresh_, false)) {
      note(comm, "stepped");
    }
    return learned.back() == 0 || !sampler_.done();
  }
  /// "end PID STEPS EPOCHS LEAST MOST": how often a sample was learned from.
  void tell() const {
    auto const [least, most] = std::minmax_element(state_.times.begin(), state_.times.end());
    std::printf("end %d %llu %llu %d %d\n", getpid(), static_cast<unsigned long long>(state_.steps),
                static_cast<unsigned long long>(state_.sampler.epoch + 1), *least, *most);
  }

 private:
  ElasticSampler sampler_{kSamples, 1};
  struct {
    std::uint64_t steps = 0;
    ElasticSampler::State sampler{.seed = 1};
    std::array<std::int32_t, kSamples> times{};
  } state_;
  bool fresh_ = true;
};

}  // namespace

int main(int count, char** words) {
  bool const shrinks = count == 2 && words[1] == std::string_view("shrink");
  if (count < 3 && !shrinks) {
    return 2;
  }
  try {
    if (shrinks) {
      close(open(path_of("start").c_str(), O_RDONLY | O_CLOEXEC));
      Counter counter;
      run_elastic(counter, {.shrink = true});
      counter.tell();
      return 0;
    }
    Trainer trainer(words[1], std::atoi(words[2]));
    if (count > 3) {
      Communicator comm = Communicator::init();
      trainer.attach(comm);
      while (trainer.step(comm)) {
      }
      comm.barrier();
    } else {
      run_elastic(trainer);
      std::printf("state %.0f\n", trainer.state());
    }
    return 0;
  } catch (PeerFailure const& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 75;
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "falling_worker: %s\n", failure.what());
    return 4;
  }
}
