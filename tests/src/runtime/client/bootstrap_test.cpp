#include "src/runtime/client/bootstrap.hpp"

#include <algorithm>
#include <csignal>
#include <optional>
#include <string>

#include "src/runtime/client/local_facts.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/forked_store.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/text.hpp"

using namespace cxxrun;          // NOLINT(google-build-using-namespace)
using namespace cxxrun::client;  // NOLINT(google-build-using-namespace)
using cxxrun::test::ForkedStore;
using cxxrun::test::has;
using cxxrun::test::run_ranks;

namespace {

constexpr Millis kTimeout{60'000};

comm::JoinRecord record_of(int rank, int world) {
  WorkerEnv env;
  env.rank = rank;
  env.world_size = world;
  return own_record(env, worker::own_variables());
}

BootstrapConfig config(Millis timeout = kTimeout) {
  return {.prefix = "test", .store = "store", .timeout = timeout, .deadline = Clock::now() + timeout};
}

std::string hosts_of(std::vector<comm::JoinRecord> const& roster) {
  std::string text;
  for (auto const& record : roster) {
    text += std::to_string(record.rank) + ":" + std::to_string(record.nonce) + " ";
  }
  return text;
}

std::string meet(ForkedStore const& store, comm::JoinRecord const& mine, BootstrapConfig how = config()) {
  return hosts_of(Bootstrap(store.client(), std::move(how), mine).meet());
}

// The keys as processes that are gone left them.
void leave_record(ForkedStore const& store, std::string const& key, comm::JoinRecord const& record) {
  auto client = store.client();
  CHECK(client.compare_set("test/" + key, "", encode(record)).value() == encode(record));
}

}  // namespace

TEST_CASE("all ranks of a world learn the same about each other") {
  for (int const world : {2, 3, 8}) {
    ForkedStore const store;
    auto const ends = run_ranks(world, [&](int rank) { return meet(store, record_of(rank, world)); });
    for (auto const& end : ends) {
      CHECK(end.returned());
      CHECK(std::count(end.said.begin(), end.said.end(), ':') == world);
      CHECK(end.said == ends[0].said);
    }
  }
}

TEST_CASE("two processes with one rank are named to every rank, by their pids") {
  for (int const twice : {0, 1}) {
    ForkedStore const store;  // rank 2 of 3 stays away, so no world can form unnoticed
    auto const ends = run_ranks(3, [&](int i) {
      int const rank = i == 2 ? twice : i;
      return meet(store, record_of(rank, 3));
    });
    for (auto const& end : ends) {
      INFO(end.said);
      CHECK(WEXITSTATUS(end.status) == 1);
      CHECK(has(end.said, "two processes have rank " + std::to_string(twice) + ": rank "));
      CHECK(has(end.said, "; give each worker its own RANK"));
      CHECK(end.said == ends[0].said);
    }
  }
}

TEST_CASE("a world size that differs is told to every rank, with both numbers") {
  ForkedStore const store;
  auto const ends = run_ranks(3, [&](int rank) { return meet(store, record_of(rank, rank == 1 ? 4 : 3)); });
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(WEXITSTATUS(end.status) == 1);
    CHECK(has(end.said, " has WORLD_SIZE 4, but rank 0 on "));
    CHECK(end.said == ends[0].said);
  }
}

TEST_CASE("a rank built with another version is told to every rank") {
  ForkedStore const store;
  auto const ends = run_ranks(3, [&](int rank) {
    auto record = record_of(rank, 3);
    record.protocol += rank == 2 ? 1 : 0;
    return meet(store, record);
  });
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(has(end.said, "exception: rank 2 on "));
    CHECK(has(end.said, "is built with libcxxrun "));
    CHECK(end.said == ends[0].said);
  }
}

TEST_CASE("ranks that do not come are named to those that did") {
  ForkedStore const store;
  auto const ends = run_ranks(2, [&](int rank) { return meet(store, record_of(rank, 4), config(Millis(300))); });
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(has(end.said, ": ranks 2 and 3 of 4 did not come within 0.3 s; "));
    CHECK(end.said == ends[0].said);
  }
}

TEST_CASE("rank 0 that does not come is named") {
  ForkedStore const store;
  auto const ends = run_ranks(1, [&](int) { return meet(store, record_of(1, 2), config(Millis(300))); });
  CHECK(has(ends[0].said, ": rank 0 did not come within 0.3 s to the store"));
}

TEST_CASE("a rank that cannot take part tells the others why") {
  for (int const broken : {0, 1}) {
    ForkedStore const store;
    auto const ends = run_ranks(3, [&](int rank) {
      if (rank == broken) {
        Bootstrap(store.client(), config(), record_of(rank, 3)).refuse(fail(Errc::environment, "no such interface"));
      }
      return meet(store, record_of(rank, 3));
    });
    for (auto const& end : ends) {
      CHECK(end.said == "exception: no such interface");
    }
  }
}

TEST_CASE("what an earlier meeting left in a store that lives on is not taken for this one's") {
  ForkedStore const store;
  auto const old_first = record_of(0, 2);
  leave_record(store, "first", old_first);
  std::string const session = std::to_string(old_first.nonce);
  SECTION("a rank of that number was there") {
    leave_record(store, session + "/rank1", record_of(1, 2));
  }
  SECTION("it had been refused") {
    CHECK(store.client().compare_set("test/" + session + "/refused", "", "0:0:long ago"));
  }
  SECTION("nothing is in the way") {}
  auto how = config();
  how.fresh = false;
  auto const ends = run_ranks(3, [&](int rank) {
    auto const mine = record_of(rank, 3);  // the world has grown since
    return std::to_string(mine.nonce) + (has(meet(store, mine, how), std::to_string(mine.nonce)) ? " in" : " not in");
  });
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(end.returned());
    CHECK(has(end.said, " in"));
  }
}

TEST_CASE("in a store that lives on, what is really in the way is told to all before their time is up") {
  ForkedStore const store;
  auto how = config(Millis(4000));
  how.fresh = false;
  auto const ends = run_ranks(3, [&](int rank) { return meet(store, record_of(rank, rank == 1 ? 4 : 3), how); });
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(has(end.said, " has WORLD_SIZE 4, but rank 0 on "));
  }
}

TEST_CASE("in a store that lives on, two processes with rank 0 still notice each other") {
  ForkedStore const store;
  auto how = config();
  how.fresh = false;
  auto const ends = run_ranks(2, [&](int) { return meet(store, record_of(0, 3), how); });
  for (auto const& end : ends) {
    INFO(end.said);
    CHECK(has(end.said, "two processes have rank 0"));
  }
}

TEST_CASE("a store that goes away while ranks meet is an error that names it") {
  ForkedStore store;
  auto const ends = run_ranks(
      1, [&](int) { return meet(store, record_of(0, 2)); },
      [&](auto const&) {
        CHECK(store.client().wait({"test/first"}));
        store.stop();
      });
  INFO(ends[0].said);
  CHECK(has(ends[0].said, "exception: rank 0 on "));
  CHECK(has(ends[0].said, "store at 127.0.0.1 port "));
}
