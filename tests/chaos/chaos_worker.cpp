// A trainer that leaves evidence of every step: chaos_worker [plain]. The state is a number that follows from the step
// alone, so that whoever reads the evidence knows what it must be.
//
// $CHAOS_DIR has
//   steps/HOST.PID      "GENERATION RANK WORLD STEP NANOSECONDS STATE" for each step that this process has completed
//   checkpoints/        every 50 steps
//   finish              when it is there, training is over
// SIGUSR1: ends with 3, as by an exception. SIGUSR2: a bit of its state is wrong; it notices, and ends with 4.
// plain: not one that survives; it ends with 75 when a peer fails, and goes on from the checkpoint.
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>

#include "cxxrun/checkpoint.hpp"
#include "cxxrun/elastic.hpp"
#include "cxxrun/failure.hpp"
#include "src/base/core/time.hpp"

namespace {

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kSaveEvery = 50;
constexpr auto kPace = std::chrono::milliseconds(20);  // eight of these on two CPUs leave room for what is tested
constexpr int kWrongState = 4;

std::sig_atomic_t volatile flip = 0;

std::string place(char const* name) {
  return std::string(std::getenv("CHAOS_DIR")) + "/" + name;  // NOLINT(concurrency-mt-unsafe)
}

/// What each rank tells the others in a step.
struct Said {
  std::uint64_t state = 0;
  std::uint64_t finish = 0;
};

class Evidence {
 public:
  Evidence() {
    std::array<char, 256> host{};
    gethostname(host.data(), host.size() - 1);
    std::string const path = place("steps/") + host.data() + "." + std::to_string(getpid());
    fd_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  }

  void note(Communicator const& comm, std::uint64_t step, std::uint64_t state) const {
    std::array<char, 128> line{};
    auto const now = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
    int const length = std::snprintf(line.data(), line.size(), "%llu %d %d %llu %lld %llx\n",
                                     static_cast<unsigned long long>(comm.generation()), comm.rank(), comm.world_size(),
                                     static_cast<unsigned long long>(step), static_cast<long long>(now),
                                     static_cast<unsigned long long>(state));
    if (write(fd_, line.data(), static_cast<std::size_t>(length)) != length) {
      std::abort();
    }
  }

 private:
  int fd_ = -1;
};

class Training : public ElasticTask {
 public:
  [[nodiscard]] std::uint64_t completed() const override { return state_.step; }

  void attach(Communicator& comm) override {
    checkpoint_.reset();
    on_rank_0(comm, [&] {
      checkpoint_.emplace(Checkpoint::Options{.directory = place("checkpoints"), .model = "chaos"}, comm.generation());
    });
  }

  void load() override {
    if (auto const saved = checkpoint_->latest()) {
      std::memcpy(&state_, saved->blob("state").data(), sizeof state_);
    }
  }

  void share(Communicator& comm, int donor) override { comm.broadcast(&state_, sizeof state_, DType::u8, donor); }

  [[nodiscard]] bool step(Communicator& comm) override {
    std::this_thread::sleep_for(kPace);
    if (flip != 0) {
      state_.value ^= 1U << 17U;
    }
    bool const over = comm.rank() == 0 && access(place("finish").c_str(), F_OK) == 0;
    auto const all = comm.all_gather_value(Said{state_.value, over ? 1U : 0U});
    if (all.front().finish != 0) {
      return false;
    }
    refuse_corruption(all);
    state_.value = state_.value * 6364136223846793005U + state_.step + 1;
    ++state_.step;
    evidence_.note(comm, state_.step, state_.value);
    if (state_.step % kSaveEvery == 0) {
      on_rank_0(comm, [&] { checkpoint_->save_async(state_.step, {{"state", std::as_bytes(std::span(&state_, 1))}}); });
    }
    return true;
  }

 private:
  void refuse_corruption(std::vector<Said> const& all) const {
    std::size_t alike = 0;
    for (auto const& each : all) {
      alike += each.state == state_.value ? 1 : 0;
    }
    if (alike == 1 && all.size() > 2) {
      std::fprintf(stderr, "chaos_worker: the state of this rank is not that of the others after step %llu\n",
                   static_cast<unsigned long long>(state_.step));
      std::_Exit(kWrongState);
    }
  }

  struct {
    std::uint64_t step = 0;
    std::uint64_t value = 1;
  } state_;
  std::optional<Checkpoint> checkpoint_;  // of rank 0
  Evidence evidence_;
};

void train_plainly(Training& training) {
  Communicator comm = Communicator::init();
  training.attach(comm);
  on_rank_0(comm, [&] { training.load(); });
  training.share(comm, 0);
  while (training.step(comm)) {
    comm.report_step(training.completed());
  }
  comm.barrier();
}

}  // namespace

int main(int count, char** words) {
  (void)signal(SIGSEGV, SIG_DFL);  // a sanitizer would end the process with 1
  (void)signal(SIGBUS, SIG_DFL);
  (void)signal(SIGUSR1, [](int) { _exit(3); });
  (void)signal(SIGUSR2, [](int) { flip = 1; });
  try {
    Training training;
    if (count > 1 && std::strcmp(words[1], "plain") == 0) {
      train_plainly(training);
    } else {
      run_elastic(training);
    }
    return 0;
  } catch (PeerFailure const& failure) {
    std::fprintf(stderr, "chaos_worker: %s\n", failure.what());
    return 75;
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "chaos_worker: %s\n", failure.what());
    return 1;
  }
}
