// What a training program outside this tree would write: finds its ranks, or is a world of one.
#include <cstdio>
#include <cxxrun/store.hpp>
#include <cxxrun/worker_env.hpp>

int main() {
  auto const worker = cxxrun::WorkerEnv::from_environment();
  if (!worker) {
    std::fprintf(stderr, "%s\n", worker.error().message().c_str());
    return 1;
  }
  std::printf("rank %u of %u\n", static_cast<unsigned>(worker->rank), static_cast<unsigned>(worker->world_size));
  return 0;
}
