// A trainer that saves when it is wanted, and leaves when the job ends: saving_worker MOMENT RANK STEP. That rank tells
// its agent to end (SIGTERM) in its first generation:
//
//   init   before it meets the others            wait   in that step, before its collective
//   step   in that step, after its collective    save   while it saves for --checkpoint-signal
// Notes "GENERATION RANK WORD STEP" in $DIR/events: `up`, `saved` (and goes on), `last` (and leaves), `left`.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>

#include "cxxrun/communicator.hpp"

namespace {

using namespace cxxrun;  // NOLINT(google-build-using-namespace)

struct Tale {
  std::string_view moment;
  int rank;
  int step;

  void tell(std::string_view now, WorkerEnv const& env, int at) const {
    if (now == moment && env.generation == 1 && env.rank == rank && at == step) {
      (void)kill(getppid(), SIGTERM);
    }
  }
};

void note(Communicator const& comm, char const* word, int step) {
  std::string const line = std::to_string(comm.generation()) + " " + std::to_string(comm.rank()) + " " + word + " " +
                           std::to_string(step) + "\n";
  std::string const path = std::string(std::getenv("DIR")) + "/events";  // NOLINT(concurrency-mt-unsafe)
  int const fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (write(fd, line.data(), line.size()) < 0) {
    std::abort();
  }
  close(fd);
}

void train(Communicator& comm, Tale const& tale) {
  float gradient = 1;
  for (int step = 1;; ++step) {
    tale.tell("wait", comm.env(), step);
    comm.all_reduce(std::span(&gradient, 1), ReduceOp::max);
    tale.tell("step", comm.env(), step);
    if (!comm.checkpoint_wanted()) {
      continue;
    }
    note(comm, comm.job_ends() ? "last" : "saved", step);
    if (comm.job_ends()) {
      comm.barrier();
      return note(comm, "left", step);
    }
    tale.tell("save", comm.env(), tale.step);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) {
    return 2;
  }
  Tale const tale{words[1], std::atoi(words[2]), std::atoi(words[3])};
  try {
    tale.tell("init", or_throw(WorkerEnv::from_environment()), tale.step);
    auto comm = Communicator::init();
    (void)signal(SIGTERM, [](int) {});  // whoever has nothing to save yet dies of it
    comm.barrier();
    note(comm, "up", 0);
    train(comm, tale);
    return 0;
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 75;
  }
}
