#include "cxxrun/elastic_sampler.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "cxxrun/failure.hpp"
#include "tests/support/catch.hpp"

using cxxrun::ElasticSampler;
using Tail = ElasticSampler::Tail;
using Samples = std::vector<std::uint64_t>;

namespace {

Samples whole_epoch(ElasticSampler const& sampler) {
  Samples all(sampler.size());
  for (std::uint64_t p = 0; p < all.size(); ++p) {
    all[p] = sampler.at(p);
  }
  return all;
}

// One step of a world: every rank has its own sampler, restored from the same state. Afterwards their states agree.
Samples step_of_all(ElasticSampler& sampler, int world, std::size_t per_rank) {
  Samples all;
  ElasticSampler const before = sampler;
  for (int rank = 0; rank < world; ++rank) {
    ElasticSampler mine = before;
    auto const batch = mine.next(rank, world, per_rank);
    all.insert(all.end(), batch.begin(), batch.end());
    bool const agrees = batch.size() <= per_rank && (rank == 0 || mine.state() == sampler.state());
    REQUIRE(agrees);
    sampler = mine;
  }
  return all;
}

struct History {
  std::uint64_t size;
  Samples seen;
  std::size_t last_whole = 0;  // ranks times samples of the last step
};

// An epoch in which the size of the world changes at random.
History random_history(std::uint64_t size, Tail tail, std::mt19937_64& random) {
  ElasticSampler sampler(size, random(), tail);
  for (std::uint64_t skip = random() % 3; skip > 0; --skip) {
    sampler.next_epoch();
  }
  History history{size, {}};
  int world = 1;
  std::size_t per_rank = 1;
  while (!sampler.done()) {
    if (random() % 3 == 0) {
      world = 1 + static_cast<int>(random() % 9);
      per_rank = 1 + random() % 40;
      ElasticSampler fresh(size, 0, tail);  // another process, from a checkpoint
      fresh.restore(sampler.state());
      sampler = fresh;
    }
    history.last_whole = static_cast<std::size_t>(world) * per_rank;
    auto const batch = step_of_all(sampler, world, per_rank);
    history.seen.insert(history.seen.end(), batch.begin(), batch.end());
  }
  return history;
}

double chi_square(std::vector<std::uint64_t> const& counts) {
  double const expected = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0})) /
                          static_cast<double>(counts.size());
  return std::accumulate(counts.begin(), counts.end(), 0.0, [&](double sum, std::uint64_t count) {
    double const off = static_cast<double>(count) - expected;
    return sum + off * off / expected;
  });
}

// Far out in the tail: for k cells the mean is k - 1 and the deviation sqrt(2(k - 1)).
double limit(std::size_t cells) {
  auto const free = static_cast<double>(cells - 1);
  return free + 6 * std::sqrt(2 * free) + 10;
}

}  // namespace

TEST_CASE("sampler: an epoch is a permutation, whatever the size", "[unit]") {
  for (std::uint64_t const size : {0U, 1U, 2U, 3U, 4U, 5U, 7U, 8U, 9U, 64U, 1000U, 65535U, 65536U, 65537U, 1000003U}) {
    auto all = whole_epoch(ElasticSampler(size, 42));
    std::sort(all.begin(), all.end());
    Samples expected(size);
    std::iota(expected.begin(), expected.end(), std::uint64_t{0});
    CHECK(all == expected);
  }
}

TEST_CASE("sampler: large sizes stay in range and do not repeat", "[unit]") {
  std::uint64_t const top = std::uint64_t{1} << 63U;
  for (std::uint64_t const size : {std::uint64_t{50'000'000}, top - 1, top, top + 1, ~std::uint64_t{0}}) {
    ElasticSampler const sampler(size, 7);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 2000; ++i) {
      for (std::uint64_t const position : {i, size - 1 - i, size / 2 + i}) {
        std::uint64_t const sample = sampler.at(position);
        CHECK(sample < size);
        CHECK(seen.insert(sample).second);
      }
    }
  }
}

TEST_CASE("sampler: the order is the same on every machine and in every release", "[unit]") {
  auto const first = [](std::uint64_t size, std::uint64_t seed, std::uint64_t epoch) {
    ElasticSampler sampler(size, seed);
    sampler.restore({seed, epoch, 0});
    return sampler.next(0, 1, 6);
  };
  // Calculated by a second implementation, in Python.
  CHECK(first(7, 0, 0) == Samples{3U, 0U, 6U, 4U, 5U, 2U});
  CHECK(first(1000003, 42, 3) == Samples{148081U, 10581U, 13396U, 288719U, 168231U, 190963U});
  CHECK(first(50'000'000, 1, 0) == Samples{18749604U, 2907182U, 39613683U, 34242570U, 25289577U, 37440144U});
  CHECK(first(~std::uint64_t{0}, 1, 1) == Samples{678640054692725329U, 5082670737603828944U, 12361783738482867340U,
                                                  1814362080175341357U, 17652549848222181853U, 2828565510035455174U});
}

TEST_CASE("sampler: every sample once per epoch over random worlds and restores", "[unit]") {
  std::mt19937_64 random(1);  // NOLINT: the same histories each time
  for (int i = 0; i < 300; ++i) {
    auto history = random_history(random() % 3000, Tail::uneven, random);
    std::sort(history.seen.begin(), history.seen.end());
    Samples expected(history.size);
    std::iota(expected.begin(), expected.end(), std::uint64_t{0});
    REQUIRE(history.seen == expected);
  }
}

TEST_CASE("sampler: drop leaves out less than one step and repeats nothing", "[unit]") {
  std::mt19937_64 random(2);  // NOLINT
  for (int i = 0; i < 300; ++i) {
    auto const history = random_history(random() % 3000, Tail::drop, random);
    std::set<std::uint64_t> const once(history.seen.begin(), history.seen.end());
    REQUIRE(once.size() == history.seen.size());
    REQUIRE(history.size - once.size() < std::max<std::size_t>(history.last_whole, 1));
  }
}

TEST_CASE("sampler: pad fills the last step and leaves nothing out", "[unit]") {
  std::mt19937_64 random(3);  // NOLINT
  for (int i = 0; i < 300; ++i) {
    auto const history = random_history(random() % 3000, Tail::pad, random);
    std::set<std::uint64_t> const once(history.seen.begin(), history.seen.end());
    REQUIRE(once.size() == history.size);
    REQUIRE(history.seen.size() - once.size() < std::max<std::size_t>(history.last_whole, 1));
  }
}

TEST_CASE("sampler: an uneven last step is shared out evenly, a padded one is full", "[unit]") {
  std::vector<std::size_t> sizes;
  for (int rank = 0; rank < 4; ++rank) {
    ElasticSampler uneven(6, 1);
    sizes.push_back(uneven.next(rank, 4, 32).size());
    CHECK(uneven.done());
    CHECK(uneven.next(rank, 4, 32).empty());
    ElasticSampler padded(6, 1, Tail::pad);
    auto const batch = padded.next(rank, 4, 4);
    REQUIRE(batch.size() == 4);
    CHECK(batch[0] == padded.at(static_cast<std::uint64_t>(rank) * 4 % 6));
    CHECK(padded.next(rank, 4, 4).empty());
  }
  CHECK(sizes == std::vector<std::size_t>{2, 2, 1, 1});
}

TEST_CASE("sampler: drop is done right after its last whole step", "[unit]") {
  ElasticSampler sampler(11, 1, Tail::drop);
  CHECK(sampler.next(1, 2, 4).size() == 4);
  CHECK(sampler.done());
  CHECK(sampler.next(1, 2, 4).empty());
  ElasticSampler small(7, 1, Tail::drop);
  CHECK(small.next(0, 2, 4).empty());
  CHECK(small.done());
}

TEST_CASE("sampler: other epochs and other seeds are other orders", "[unit]") {
  std::set<Samples> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ElasticSampler sampler(100, seed);
    for (int epoch = 0; epoch < 20; ++epoch) {
      CHECK(orders.insert(whole_epoch(sampler)).second);
      sampler.next_epoch();
    }
  }
}

TEST_CASE("sampler: a restored state brings its seed and goes on with the same samples", "[unit]") {
  ElasticSampler sampler(1000, 5);
  sampler.next_epoch();
  (void)sampler.next(0, 3, 10);
  ElasticSampler other(1000, 6);
  other.restore(sampler.state());
  CHECK(other.state() == ElasticSampler::State{5, 1, 30});
  CHECK(other.next(2, 4, 10) == sampler.next(2, 4, 10));
}

TEST_CASE("sampler: a step of all ranks together takes the same samples whatever the world is", "[unit]") {
  ElasticSampler sampler(1000, 5);
  ElasticSampler alone(1000, 5);
  for (int const world : {1, 3, 4, 5, 7, 2}) {  // ranks go and come
    auto const expected = alone.next(0, 1, 7);
    std::vector<std::uint64_t> all;
    auto const before = sampler.state();
    for (int rank = 0; rank < world; ++rank) {
      sampler.restore(before);
      auto const mine = sampler.next_shared(rank, world, 7);
      CHECK((mine.size() == 7U / static_cast<unsigned>(world) || mine.size() == 7U / static_cast<unsigned>(world) + 1));
      all.insert(all.end(), mine.begin(), mine.end());
    }
    CHECK(all == expected);
    CHECK(sampler.state() == alone.state());
  }
  CHECK_THROWS_AS(sampler.next_shared(0, 8, 7), cxxrun::Failure);
  CHECK_THROWS_AS(sampler.next_shared(2, 2, 7), cxxrun::Failure);
  CHECK_THROWS_AS(sampler.next_shared(0, 0, 7), cxxrun::Failure);
  CHECK(sampler.state() == alone.state());
}

TEST_CASE("sampler: every sample is as likely at every position", "[unit]") {
  for (std::uint64_t const size : {2U, 3U, 5U, 7U, 16U, 17U, 33U, 64U, 65U}) {
    std::vector<std::uint64_t> cells(size * size);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      ElasticSampler sampler(size, seed);
      for (int epoch = 0; epoch < 100; ++epoch, sampler.next_epoch()) {
        for (std::uint64_t p = 0; p < size; ++p) {
          ++cells[p * size + sampler.at(p)];
        }
      }
    }
    CAPTURE(size);
    CHECK(chi_square(cells) < limit(cells.size()));
  }
}

TEST_CASE("sampler: neighbours in the order are not neighbours in the data", "[unit]") {
  ElasticSampler const sampler(1'000'003, 9);
  std::vector<std::uint64_t> distances(64);
  std::vector<std::uint64_t> parity(4);
  std::uint64_t before = sampler.at(0);
  for (std::uint64_t p = 1; p < 200'000; ++p) {
    std::uint64_t const now = sampler.at(p);
    ++distances[(now + 1'000'003 - before) % 1'000'003 * 64 / 1'000'003];
    ++parity[(now & 1U) * 2 + (before & 1U)];
    before = now;
  }
  CHECK(chi_square(distances) < limit(distances.size()));
  CHECK(chi_square(parity) < limit(parity.size()));
}

TEST_CASE("sampler: what cannot be meant is refused and changes nothing", "[unit]") {
  ElasticSampler sampler(10, 1);
  auto const before = sampler.state();
  CHECK_THROWS_AS(sampler.next(0, 0, 1), cxxrun::Failure);
  CHECK_THROWS_AS(sampler.next(-1, 2, 1), cxxrun::Failure);
  CHECK_THROWS_AS(sampler.next(2, 2, 1), cxxrun::Failure);
  CHECK_THROWS_AS(sampler.next(0, 2, 0), cxxrun::Failure);
  CHECK_THROWS_AS(sampler.at(10), cxxrun::Failure);
  CHECK_THROWS_WITH(sampler.restore({1, 0, 11}), Catch::Contains("another data set"));
  CHECK(sampler.state() == before);
  CHECK(sampler.next(1, 2, ~std::size_t{0}).size() == 5);  // no overflow
}
