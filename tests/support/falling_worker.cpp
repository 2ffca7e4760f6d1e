// A trainer of which one rank falls in the first generation, in the middle of a step: falling_worker HOW RANK [plain].
//
//   throw   an exception that main() catches: the process unwinds, says why and exits with 4
//   exit    exits with 3             exit0   exits with 0
//   abort   abort()                  hang    computes for ever            halt   stops itself (SIGSTOP)
// plain: not one that survives; it exits with 75 when a peer fails. Notes "GENERATION RANK WORD PID TIME" (seconds of
// CLOCK_BOOTTIME) in $DIR/events: `up` and `stepped` once in each generation, `falls`.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <unistd.h>

#include "cxxrun/elastic.hpp"
#include "cxxrun/failure.hpp"
#include "src/base/core/time.hpp"

namespace {

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kFalls = 5;
constexpr std::uint64_t kSteps = 20;

void note(Communicator& comm, char const* word) {
  auto const now = std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  std::string const line = std::to_string(comm.generation()) + " " + std::to_string(comm.rank()) + " " + word + " " +
                           std::to_string(getpid()) + " " + std::to_string(now) + "\n";
  std::string const path = std::string(std::getenv("DIR")) + "/events";  // NOLINT(concurrency-mt-unsafe)
  int const fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
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

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    return 2;
  }
  Trainer trainer(words[1], std::atoi(words[2]));
  try {
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
