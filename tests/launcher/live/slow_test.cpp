#include "launcher/live/slow.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::live;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;

namespace {

/// Milliseconds by which each rank is late in each step.
using Each = std::vector<double>;
/// Forward, backward, reducing, in milliseconds.
using Times = std::array<std::int64_t, 3>;

/// Readings of a job with four collectives a step. The times are made up so that each rank is as late as the test says.
class Ranks {
 public:
  explicit Ranks(std::uint32_t ranks, std::int64_t step = 300, std::uint32_t per_node = 8) : step_(step) {
    for (std::uint32_t i = 0; i < ranks; ++i) {
      now.emplace_back().rank = i;
      now.back().node = i / per_node * per_node;
    }
    (void)begun(Each(ranks));
    (void)begun(Each(ranks));
    (void)begun(Each(ranks));  // the first window is over, and the means are known
  }

  std::vector<Change> calls(Each const& late) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      now[i].inside += std::llround((100 - late[i]) * 5'000'000 / static_cast<double>(step_));
    }
    return pass();
  }
  std::vector<Change> ddp(Times const& usual, std::size_t other = 0, Times const& others_times = {}) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      auto const& times = others_times != Times{} && i == other ? others_times : usual;
      ++now[i].sample;
      now[i].forward = times[0] * 1000;
      now[i].backward = times[1] * 1000;
      now[i].reducing = times[2] * 1000;
    }
    return pass();
  }
  Ranks& looked(Each const& late) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      auto const at = at_ + 2500 + static_cast<std::int64_t>(i);  // no two ranks look at the same instant
      now[i].looks += 50;
      now[i].looked_at += 50 * at;
      now[i].looked_begun += std::llround(50 * 4 * (static_cast<double>(at) - late[i]) / static_cast<double>(step_));
    }
    return *this;
  }
  /// How long a step waits for its DataLoader, in milliseconds.
  Ranks& fed(Each const& waits) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      now[i].fed += 1 + std::llround(waits[i] * 5'000'000 / static_cast<double>(step_));
    }
    return *this;
  }
  std::vector<Change> begun(Each const& late) { return looked(late).pass(); }
  /// Five seconds later.
  std::vector<Change> pass() {
    at_ += 5000;
    for (auto& reading : now) {
      reading.at = at_;
      reading.heard = at_ + 700'000;
      reading.step = at_ / step_;
    }
    return close_window(windows, now);
  }

  Windows windows;
  std::vector<Reading> now;

 private:
  std::int64_t step_;
  std::int64_t at_ = 1'000'000;
};

/// All ranks alike but one.
Each only(std::size_t rank, double late, std::size_t ranks = 8) {
  Each each;
  for (std::size_t i = 0; i < ranks; ++i) {
    each.push_back(i == rank ? late : static_cast<double>(i % 3));
  }
  return each;
}

}  // namespace

TEST_CASE("slow: a rank is named in the third window in which it is behind, and by the sources as they see it") {
  // What was measured of 8 ranks of DistributedDataParallel on gloo, the sixth of which is slowed.
  struct Row {
    std::int64_t step;
    std::int64_t begun;
    Times usual;
    Times its;
    std::int64_t late;
    Kind kind;
  };
  for (auto const& row : {
           Row{295, 31, {74, 147, 167}, {89, 175, 148}, 43, Kind::computing},  // 20 % longer
           Row{301, 46, {75, 148, 173}, {75, 148, 126}, 47, Kind::input},
           Row{328, 38, {78, 152, 68}, {93, 182, 26}, 45, Kind::computing},  // the same with one bucket
           Row{307, 23, {79, 154, 46}, {86, 169, 26}, 22, Kind::computing},  // 10 % longer
           Row{377, 43, {89, 164, 85}, {88, 162, 43}, 42, Kind::input},
       }) {
    CAPTURE(row.step);
    Ranks by_begun(8, row.step);
    auto const late = only(5, static_cast<double>(row.begun));
    CHECK(by_begun.begun(late).empty());
    CHECK(by_begun.begun(late).empty());
    auto const found = by_begun.begun(late);
    REQUIRE(found.size() == 1);
    CHECK_FALSE(found[0].over);
    CHECK(found[0].who.rank == 5);
    CHECK(found[0].who.ranks == 1);
    CHECK(found[0].who.source == Source::begun);
    CHECK(found[0].who.kind == Kind::unknown);
    CHECK(std::abs(found[0].who.late.count() - row.begun) <= 3);
    CHECK(std::abs(found[0].who.step.count() - row.step) <= 20);

    Ranks by_ddp(8, row.step);
    CHECK(by_ddp.ddp(row.usual, 5, row.its).empty());
    CHECK(by_ddp.ddp(row.usual, 5, row.its).empty());
    auto const logged = by_ddp.ddp(row.usual, 5, row.its);
    REQUIRE(logged.size() == 1);
    CHECK(logged[0].who.source == Source::ddp);
    CHECK(logged[0].who.kind == row.kind);
    CHECK(logged[0].who.late == cxxrun::Millis(row.late));
  }
  for (auto const& [waits, kind] : {std::pair{40.0, Kind::input}, std::pair{15.0, Kind::computing}}) {
    for (bool const by_calls : {false, true}) {
      Ranks fed(8);
      auto const late = only(5, 40);
      auto const pass = [&, waits = waits] {
        fed.looked(late).fed(only(5, waits));
        return by_calls ? fed.calls(late) : fed.pass();
      };
      (void)pass();  // there are no figures of DataLoaders before it
      (void)pass();
      CHECK(pass().at(0).who.kind == kind);
    }
  }
  Ranks job(8);
  for (int i = 0; i < 2; ++i) {
    CHECK(job.calls(only(5, 48)).empty());
  }
  auto const found = job.calls(only(5, 48));
  REQUIRE(found.size() == 1);
  CHECK(found[0].who.source == Source::calls);
  CHECK(std::abs(found[0].who.late.count() - 47) <= 1);
}

TEST_CASE("slow: ranks that are alike, and ranks on a busy machine, are not named") {
  std::uint32_t state = 1;
  auto const noise = [&state](double size) {  // about normal, of any distribution of the library
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      state = state * 1'664'525U + 1'013'904'223U;
      sum += static_cast<double>(state >> 8U) / (1U << 24U) - 0.5;
    }
    return sum * size;
  };
  for (double const size : {4.0, 60.0}) {  // of 400 ms
    Ranks job(8, 400);
    for (int window = 0; window < 60; ++window) {
      Each late;
      for (int i = 0; i < 8; ++i) {
        late.push_back(noise(size));
      }
      CHECK(job.begun(late).empty());
    }
  }
}

TEST_CASE("slow: less than 5 % of a step, or less than the others differ among themselves, is not behind") {
  auto const behind = [](std::vector<std::optional<double>> const& late) { return who_is_behind(late, 1000)[0]; };
  CHECK(behind({50, 0, 0, 0}) == 50.0);
  CHECK_FALSE(behind({49, 0, 0, 0}));
  CHECK_FALSE(behind({100, -20, 20, -20, 20}));
  CHECK(behind({120, -20, 20, -20, 20}));
  CHECK(behind({100, 0, 0, 190}));
  CHECK_FALSE(behind({90, 0, 0, 190}));  // not even half as late as another one
  CHECK_FALSE(behind({500, 0}));
  CHECK_FALSE(behind({500, 0, std::nullopt}));
  CHECK_FALSE(behind({std::nullopt, 0, 0, 0}));
}

TEST_CASE("slow: three of five windows, not three in turn; over when none of five") {
  Ranks job(8);
  auto const late = only(2, 40);
  auto const alike = only(2, 0);
  CHECK(job.begun(late).empty());
  CHECK(job.begun(alike).empty());
  CHECK(job.begun(late).empty());
  CHECK(job.begun(alike).empty());
  CHECK(job.begun(late).size() == 1);
  for (int i = 0; i < 4; ++i) {
    CHECK(job.begun(alike).empty());
  }
  CHECK(job.windows.slow.size() == 1);
  auto const over = job.begun(alike);
  REQUIRE(over.size() == 1);
  CHECK(over[0].over);
  CHECK(over[0].who.rank == 2);
  CHECK(job.windows.slow.empty());
  for (int i = 0; i < 20; ++i) {  // two of five
    CHECK(job.begun(i % 5 < 2 ? late : alike).empty());
  }
}

TEST_CASE("slow: a node all ranks of which are slow is named instead of its ranks") {
  Ranks job(12, 300, 4);
  Each late(12, 0);
  late[5] = 60;
  for (int i = 0; i < 2; ++i) {
    CHECK(job.calls(late).empty());
  }
  CHECK(job.calls(late).size() == 1);  // rank 5
  late[4] = late[6] = late[7] = 55;
  CHECK(job.calls(late).empty());
  CHECK(job.calls(late).empty());
  auto const found = job.calls(late);
  REQUIRE(found.size() == 1);
  CHECK(found[0].who.rank == 4);
  CHECK(found[0].who.ranks == 4);
  CHECK(std::abs(found[0].who.late.count() - 60) <= 3);
  CHECK(job.windows.slow.size() == 1);
  std::size_t over = 0;
  for (int i = 0; i < 5; ++i) {
    over += job.calls(Each(12, 0)).size();
  }
  CHECK(over == 1);
}

TEST_CASE("slow: what is found of a job's first steps, in less than ten steps, or across a gap does not count") {
  Ranks fresh(8);
  fresh.windows = {};
  for (int i = 0; i < 4; ++i) {
    CHECK(fresh.calls(only(1, 60)).empty());  // a beginning, the first window, and two that count
  }
  CHECK(fresh.calls(only(1, 60)).size() == 1);

  Ranks long_steps(8, 2000);
  int passed = 0;
  while (passed < 40 && long_steps.begun(only(1, 300)).empty()) {
    ++passed;
  }
  CHECK(passed >= 2 * 4);  // of 5 s each: three windows have ten steps each
  CHECK(passed <= 5 * 4);

  Ranks gap(8);
  CHECK(gap.calls(only(1, 60)).empty());
  CHECK(gap.calls(only(1, 60)).empty());
  empty(gap.windows);
  for (int i = 0; i < 3; ++i) {
    CHECK(gap.calls(only(1, 60)).empty());
  }
  CHECK(gap.calls(only(1, 60)).size() == 1);
}

TEST_CASE("slow: the kind that DistributedDataParallel's log tells stays known while other sources decide") {
  Ranks job(8);
  CHECK(job.looked(only(5, 46)).ddp({75, 148, 173}, 5, {75, 148, 126}).empty());
  CHECK(job.begun(only(5, 46)).empty());
  auto const found = job.begun(only(5, 46));
  REQUIRE(found.size() == 1);
  CHECK(found[0].who.source == Source::begun);
  CHECK(found[0].who.kind == Kind::input);
}

TEST_CASE("slow: ranks that do not begin equally many collectives are not compared") {
  Ranks job(8);
  for (int i = 0; i < 10; ++i) {
    job.now[3].looked_begun -= 50 * 10 * i;  // ten fewer in each window
    CHECK(job.begun(only(3, 0)).empty());
  }
}

TEST_CASE("slow: numbers that no worker can have are no trouble") {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  Ranks job(8);
  for (auto const word : {kMost, kLeast, std::int64_t{0}, std::int64_t{-1}, kMost - 1, kMost, kLeast + 1}) {
    for (auto const at : {&Reading::inside, &Reading::sample, &Reading::forward, &Reading::backward, &Reading::reducing,
                          &Reading::looks, &Reading::looked_begun, &Reading::looked_at}) {
      for (int i = 0; i < 4; ++i) {
        job.now[static_cast<std::size_t>(i)].*at = word;
        for (auto const& change : job.pass()) {
          CHECK(change.who.rank < 8);
          CHECK(change.who.late >= 0ms);
        }
      }
    }
  }
  job.now[0].step = job.now[1].at = job.now[2].heard = kMost;
  CHECK(close_window(job.windows, job.now).empty());
  job.now[0].step = job.now[1].at = job.now[2].heard = kLeast;
  CHECK(close_window(job.windows, job.now).empty());
  CHECK(close_window(job.windows, {}).empty());
}
