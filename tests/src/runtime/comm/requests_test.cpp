#include "src/runtime/comm/requests.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/catch.hpp"

using cxxrun::comm::Requests;
using cxxrun::comm::Wanted;

namespace {

struct Rank {
  Requests requests;
  std::uint32_t asked = 0;
  bool ends = false;
};

/// Ranks that call equally often, like Communicator::checkpoint_wanted(); each may receive a request before it calls.
struct World {
  std::vector<Rank> ranks;
  Wanted under_way = Wanted::nothing;

  template <class Ask>
  Wanted call(Ask const& ask) {
    Wanted const agreed = under_way;
    under_way = Wanted::nothing;
    for (Rank& rank : ranks) {
      ask(rank);
      under_way = std::max(under_way, rank.requests.answer(agreed, rank.asked, rank.ends));
      CHECK(rank.requests.last() == agreed);
    }
    return agreed;
  }
  Wanted call() {
    return call([](Rank&) {});
  }
};

}  // namespace

TEST_CASE("requests: one rank is asked, and all are answered one call later, once") {
  World world{std::vector<Rank>(3)};
  CHECK(world.call() == Wanted::nothing);
  ++world.ranks[1].asked;
  CHECK(world.call() == Wanted::nothing);
  CHECK(world.call() == Wanted::save);
  for (int i = 0; i < 5; ++i) {
    CHECK(world.call() == Wanted::nothing);
  }
  ++world.ranks[2].asked;
  world.call();
  CHECK(world.call() == Wanted::save);
}

TEST_CASE(
    "requests: a rank that is asked later than the others, but before the call after the answer, is answered by it") {
  World world{std::vector<Rank>(2)};
  ++world.ranks[0].asked;
  world.call();
  CHECK(world.call() == Wanted::save);
  ++world.ranks[1].asked;  // while they save
  for (int i = 0; i < 5; ++i) {
    CHECK(world.call() == Wanted::nothing);
  }
}

TEST_CASE("requests: the end of the job is answered too where a checkpoint has just been, and once") {
  World world{std::vector<Rank>(2)};
  ++world.ranks[0].asked;
  world.call();
  CHECK(world.call() == Wanted::save);
  world.ranks[1].ends = true;
  CHECK(world.call() == Wanted::nothing);
  CHECK(world.call() == Wanted::save_and_end);
  world.ranks[0].ends = true;
  for (int i = 0; i < 5; ++i) {
    CHECK(world.call() == Wanted::nothing);
  }
}

TEST_CASE("requests: what a failure follows before the next call is asked again in the next generation") {
  World world{std::vector<Rank>(2)};
  ++world.ranks[0].asked;
  world.call();
  CHECK(world.call() == Wanted::save);
  world.under_way = Wanted::nothing;
  for (Rank& rank : world.ranks) {
    rank.requests.new_generation();
  }
  CHECK(world.call() == Wanted::nothing);
  CHECK(world.call() == Wanted::save);
}

TEST_CASE("requests: each is answered in the second call from the one that sees it, whatever the ranks are asked") {
  std::minstd_rand random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same in each run
  World world{std::vector<Rank>(4)};
  std::vector<bool> asked;  // whether some rank was asked before that call
  std::vector<Wanted> answers;
  for (int i = 0; i < 20'000; ++i) {
    asked.push_back(false);
    answers.push_back(world.call([&](Rank& rank) {
      if (random() % 16 == 0) {
        ++rank.asked;
        asked.back() = true;
      }
    }));
  }
  for (std::size_t i = 2; i + 2 < answers.size(); ++i) {
    if (answers[i] == Wanted::save) {
      CHECK(asked[i - 1]);
    }
    if (asked[i]) {  // by a save that covers the request, or by its own
      CHECK((answers[i - 1] == Wanted::save || answers[i] == Wanted::save || answers[i + 1] == Wanted::save));
    }
  }
}
