// Every rule of docs/election.md broken on purpose: the simulation has to notice. docs/simulation.md has the table.
#include <iostream>

#include "tests/simulation/job.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::simulation;  // NOLINT(google-build-using-namespace)

TEST_CASE("mutations: a broken rule breaks an execution", "[simulation]") {
  constexpr std::uint64_t kMost = 20'000;
  for (auto const& [mutation, name] : kMutations) {
    std::string broken;
    std::uint64_t seed = 0;
    while (broken.empty() && seed < kMost) {
      auto schedule = draw(++seed);
      schedule.mutation = mutation;
      Job job(std::move(schedule));
      broken = job.run();
      if (!broken.empty() && !Job(draw(seed)).run().empty()) {
        broken.clear();  // it breaks without the mutation too: proves nothing
      }
    }
    std::cout << name << ": seed " << seed << ": " << broken << "\n";
    CHECKED_ELSE(!broken.empty()) {
      FAIL_CHECK("nobody notices " << name << " in " << kMost << " schedules");
    }
  }
}
