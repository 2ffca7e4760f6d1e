// What a training program outside this tree would write: its ranks add up their numbers; alone it is a world of one.
#include <cstdio>
#include <cxxrun/arena.hpp>
#include <cxxrun/checkpoint.hpp>
#include <cxxrun/communicator.hpp>
#include <cxxrun/elastic_sampler.hpp>
#include <cxxrun/gradient_synchronizer.hpp>
#include <cxxrun/store.hpp>
#include <cxxrun/worker_env.hpp>
#include <exception>

int main() {
  try {
    auto comm = cxxrun::Communicator::init();
    auto arena = comm.arena(1 << 20);
    auto const values = arena.allocate<float>(1000);
    for (auto& value : values) {
      value = static_cast<float>(comm.rank() + 1);
    }
    comm.all_reduce(values);
    std::printf("rank %d of %d: sum %g\n", comm.rank(), comm.world_size(), static_cast<double>(values.back()));
    comm.barrier();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
