#include "launcher/story/trace.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
namespace story = rendezvous::story;
using Json = nlohmann::json;

namespace {

std::vector<story::Event> one_generation() {
  return {{2s, story::Formed{1, 2, 3, 0, "n[0-1]", "2,1"}},
          {3s, story::Started{1}},
          {8s, story::WorkerFailed{1, 2, "n1", "exit code 3"}},
          {9s, story::Ended{{1, 2, 3, true, 3s, 5s, 0s, "rank 2 on n1: exit code 3"}}},
          {9s, story::Stretch{rendezvous::Spent::training, 3s, 8s}},
          {9s, story::Concluded{"worker failed", 3, ""}}};
}

/// The complete events of a process.
std::vector<Json> bars(std::vector<story::Event> const& story, int process) {
  std::vector<Json> found;
  for (auto const& each : Json::parse(trace_text(story))) {
    if (each["ph"] == "X" && each["pid"] == process) {
      found.push_back(each);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("trace: the job has its time and its generations, each node its workers by rank", "[unit]") {
  auto const job = bars(one_generation(), 0);
  REQUIRE(job.size() == 2);
  CHECK(job[0]["name"] == "generation 1");
  CHECK(job[0]["args"]["why"] == "rank 2 on n1: exit code 3");
  CHECK(job[1]["name"] == "training");
  CHECK(job[1]["ts"] == 3'000'000);
  CHECK(job[1]["dur"] == 5'000'000);
  auto const first = bars(one_generation(), 1);
  REQUIRE(first.size() == 2);
  CHECK(first[1]["tid"] == 1);
  CHECK(first[1]["ts"] == 3'000'000);
  CHECK(first[1]["dur"] == 6'000'000);
}

TEST_CASE("trace: a worker that fails has its own end", "[unit]") {
  auto const second = bars(one_generation(), 2);
  REQUIRE(second.size() == 1);
  CHECK(second[0]["tid"] == 2);
  CHECK(second[0]["dur"] == 5'000'000);
  CHECK(second[0]["args"]["failed"] == "exit code 3");
}

TEST_CASE("trace: what an elected coordinator knows of the time before is in it", "[unit]") {
  rendezvous::History known;
  known.account.spent = {1s, 0s, 5s, 0s, 0s};
  known.past = {{1, 2, 3, true, 1s, 5s, 0s, "node lost: n0"}};
  auto const job = bars({{6s, story::TookOver{1, known}}}, 0);
  REQUIRE(job.size() == 2);
  CHECK(job[0]["name"] == "generation 1");
  CHECK(job[1]["dur"] == 6'000'000);
}

TEST_CASE("trace: of more workers than a browser shows only the job is in it", "[unit]") {
  auto story = one_generation();
  story[0].what = story::Formed{1, 2, 300'000, 0, "n[0-1]", "150000(x2)"};
  CHECK(bars(story, 0).size() == 2);
  CHECK(bars(story, 1).empty());
}

TEST_CASE("trace: a job without events is an empty picture, and valid JSON", "[unit]") {
  for (auto const& each : Json::parse(trace_text({}))) {
    CHECK(each["ph"] == "M");
  }
}
