// What a rank throws when it checks its local peers without a call and one of them has died.
#include <array>
#include <atomic>
#include <csignal>
#include <exception>
#include <fstream>
#include <string>
#include <sys/types.h>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/node_world.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/shared.hpp"

using namespace cxxrun;  // NOLINT(google-build-using-namespace)
using comm::Kind;
using host::Trouble;

namespace {

void await_state(pid_t pid, char state) {
  for (std::string text; text.find(std::string(") ") + state) == std::string::npos; usleep(100)) {
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), text);
  }
}

}  // namespace

TEST_CASE("a mate that died while it waited for this rank is named, and not taken for one that calls something else") {
  test::NodeWorld node({3});
  auto& flag = test::shared<std::atomic<int>>();
  auto const ends = test::run_ranks(
      3,
      [&](int rank) -> std::string {
        auto const backend = node.join(rank);
        try {
          if (rank < 2) {
            double value = 1;
            flag.fetch_add(1);
            backend->run({.kind = Kind::all_reduce, .type = DType::f64, .count = 1, .in = &value, .out = &value});
          }
          while (backend->trouble() != Trouble::failed) {
            usleep(100);
          }
          std::array<std::uint8_t, 3> told{};
          backend->run_within(
              {.kind = Kind::all_gather, .type = DType::u8, .count = 1, .in = told.data() + rank, .out = told.data()},
              std::chrono::seconds(5));
        } catch (std::exception const& failure) {
          flag.fetch_add(1);
          return failure.what();
        }
        return "nothing";
      },
      [&](std::vector<pid_t> const& pids) {
        while (flag.load() < 2) {
          usleep(100);
        }
        await_state(pids[0], 'S');
        await_state(pids[1], 'S');
        kill(pids[0], SIGSTOP);  // it would be the first to learn of the other's death, and would tell
        await_state(pids[0], 'T');
        kill(pids[1], SIGKILL);
        while (flag.load() < 3) {
          usleep(100);
        }
        kill(pids[0], SIGCONT);
      });
  for (int const rank : {0, 2}) {
    CHECK_THAT(ends[static_cast<std::size_t>(rank)].said, Catch::Matchers::StartsWith("rank 1 on here died "));
  }
}
