// simulation_run FIRST COUNT [THREADS [MUTATION]]: many random schedules; what they covered, and each that failed.
// `forged` before any of it: with a Forger.
// simulation_run replay SEED [MUTATION]: one, with everything that happened; `messages` in place of `replay`: and all
// that was sent.
#include <algorithm>
#include <atomic>
#include <iostream>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "src/base/core/text.hpp"
#include "tests/simulation/job.hpp"

using namespace cxxrun::simulation;  // NOLINT(google-build-using-namespace)

namespace {

Mutation mutation_called(std::string const& name) {
  for (auto const& [mutation, text] : kMutations) {
    if (name == text) {
      return mutation;
    }
  }
  throw std::invalid_argument("no mutation is called " + name);
}

std::uint64_t number(std::string const& text, std::uint64_t least = 0) {
  auto const value = cxxrun::parse_unsigned(text, least, std::numeric_limits<std::uint64_t>::max());
  if (!value) {
    throw std::invalid_argument(text + ": " + value.error().message());
  }
  return *value;
}

bool forged = false;

int replay(std::uint64_t seed, Mutation mutation, bool messages) {
  auto schedule = draw(seed);
  schedule.forged = forged;
  schedule.mutation = mutation;
  Job job(std::move(schedule));
  job.world.traced = true;
  job.world.messages_traced = messages;
  auto const broken = job.run();
  std::cout << job.describe() << (broken.empty() ? "nothing broken" : "BROKEN: " + broken) << "\n";
  return broken.empty() ? 0 : 1;
}

int run_many(std::uint64_t first, std::uint64_t count, unsigned threads, Mutation mutation) {
  std::atomic<std::uint64_t> next{first};
  std::mutex mutex;
  Coverage total;
  std::map<std::string, std::vector<std::uint64_t>> failed;
  std::vector<std::thread> pool;
  for (unsigned i = 0; i < threads; ++i) {
    pool.emplace_back([&] {
      Coverage mine;
      for (std::uint64_t seed = next++; seed < first + count; seed = next++) {
        auto schedule = draw(seed);
        schedule.forged = forged;
        schedule.mutation = mutation;
        Job job(std::move(schedule), &mine);
        if (auto const broken = job.run(); !broken.empty()) {
          std::lock_guard const lock(mutex);
          failed[broken].push_back(seed);
        }
      }
      std::lock_guard const lock(mutex);
      total.add(mine);
    });
  }
  for (auto& thread : pool) {
    thread.join();
  }
  std::cout << total;
  for (auto const& [broken, seeds] : failed) {
    std::cout << "BROKEN " << seeds.size() << " times, first in seed " << seeds.front() << ": " << broken << "\n";
    for (std::size_t i = 1; i < std::min<std::size_t>(seeds.size(), 20); ++i) {
      std::cout << (i == 1 ? "  also " : " ") << seeds[i];
    }
    std::cout << (seeds.size() > 1 ? "\n" : "");
  }
  return failed.empty() ? 0 : 1;
}

int run(std::vector<std::string> args) {
  if (!args.empty() && args[0] == "forged") {
    forged = true;
    args.erase(args.begin());
  }
  auto const mutation = [&args](std::size_t at) {
    return args.size() > at ? mutation_called(args[at]) : Mutation::none;
  };
  if (args.size() < 2) {
    throw std::invalid_argument("too few arguments");
  }
  if (args[0] == "replay" || args[0] == "messages") {
    return replay(number(args[1]), mutation(2), args[0] == "messages");
  }
  auto const threads = args.size() > 2 ? static_cast<unsigned>(number(args[2], 1)) : 1;
  return run_many(number(args[0]), number(args[1]), threads, mutation(3));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (std::invalid_argument const& wrong) {
    std::cerr
        << "simulation_run: " << wrong.what()
        << "; usage: simulation_run [forged] FIRST COUNT [THREADS [MUTATION]] | replay|messages SEED [MUTATION]\n";
    return 100;
  }
}
