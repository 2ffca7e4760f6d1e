#include "launcher/live/live.hpp"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "launcher/live/answers.hpp"
#include "launcher/report/report_json.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                  // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::live;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using rendezvous::NodePulse;
namespace story = rendezvous::story;

namespace {

TimePoint const kStart{1000s};

Row told(std::int64_t step, std::int64_t ago) {
  Row row{};
  of(row, Figure::step) = step;
  of(row, Figure::step_ago) = ago;
  of(row, Figure::begun) = std::min(step, std::numeric_limits<std::int64_t>::max() / 2) * 2;
  of(row, Figure::state) = 'R';
  return row;
}

NodePulse pulse(std::uint64_t generation, std::uint32_t rank_base, std::vector<Row> const& rows) {
  NodePulse made{generation, rank_base, static_cast<std::uint32_t>(kFigures), {}};
  for (auto const& row : rows) {
    made.figures.insert(made.figures.end(), row.begin(), row.end());
  }
  return made;
}

struct Job {
  Live live;
  TimePoint now = kStart;

  void happens(story::What what) {
    story::Event const event{std::chrono::duration_cast<Millis>(now - kStart), std::move(what)};
    fold(live, event, launcher::event_line(event, 1'700'000'000'000), now);
  }
  void start(std::uint64_t generation, std::uint32_t nodes, std::uint32_t ranks) {
    happens(story::Formed{generation, nodes, ranks, 0, "node[1-2]", "1(x2)"});
    happens(story::Started{generation});
  }
  [[nodiscard]] nlohmann::json json() const {
    return nlohmann::json::parse(live_json(live, {"4711.0", "node1", "train.py", 3U, "n1"}, now));
  }
};

}  // namespace

TEST_CASE("live: the table says what the job does, and since when") {
  Job job;
  job.happens(story::NodeJoined{"node1", 1});
  CHECK(job.json()["phase"] == "waiting");
  job.now += 2s;
  job.happens(story::Formed{1, 2, 2, 0, "", ""});
  CHECK(job.json()["phase"] == "starting");
  job.happens(story::Started{1});
  job.now += 3s;
  auto json = job.json();
  CHECK(json["version"] == 1);
  CHECK(json["run_id"] == "4711.0");
  CHECK(json["phase"] == "running");
  CHECK(json["phase_ms"] == 3000);
  CHECK(json["job_ms"] == 5000);
  CHECK(json["generation_ms"] == 3000);
  CHECK(json["ranks"] == 2);
  CHECK(json["max_restarts"] == 3);
  job.happens(story::WorkerFailed{1, 1, "node2", "exit code 1"});
  CHECK(job.json()["why"] == "rank 1 on node2: exit code 1");
  job.happens(story::Stopping{1, "failure", "rank 1 failed"});
  CHECK(job.json()["phase"] == "stopping");
  job.happens(story::Ended{{1, 2, 2, true, 0ms, 0ms, 0ms, "rank 1 failed"}});
  CHECK(job.json()["phase"] == "waiting");
  CHECK(job.json()["why"] == "rank 1 failed");
  job.happens(story::Restart{1, 0ms});
  CHECK(job.json()["restarts"] == 1);
  job.happens(story::Concluded{"failed", 1, "rank 1 failed"});
  CHECK(job.json()["phase"] == "over");
}

TEST_CASE("live: only the generation that runs, and that a person was shown, is changed") {
  Job job;
  CHECK(objection_to_change(job.live, 0) ==
        "its workers do not run now, it is waiting: look again by cxxrunctl status");
  job.happens(story::Formed{2, 1, 2, 0, "", ""});
  CHECK(objection_to_change(job.live, 2).find("it is starting") != std::string::npos);
  job.happens(story::Started{2});
  CHECK(objection_to_change(job.live, 2).empty());
  CHECK(objection_to_change(job.live, 1) ==
        "generation 2 runs now, and not 1 as was shown: look again by cxxrunctl status");
  job.happens(story::Wanted{2, "restart", "uid 0"});
  CHECK(objection_to_change(job.live, 2).empty());
  job.happens(story::Stopping{2, "resize", "restarted by uid 0"});
  CHECK_FALSE(objection_to_change(job.live, 2).empty());
}

TEST_CASE("live: a node is what its last pulse says, and each worker has the time of its steps") {
  Job job;
  job.start(1, 2, 3);
  fold(job.live, 7, "node2", pulse(1, 1, {told(10, 0), told(10, 500)}), job.now);
  fold(job.live, 3, "node1", pulse(1, 0, {told(10, 0)}), job.now);
  CHECK(job.json()["members"][1]["ranks"][0][0] == -1);  // one step gives no speed
  job.now += 5s;
  fold(job.live, 7, "node2", pulse(1, 1, {told(20, 1000), told(10, 5500)}), job.now);
  auto const json = job.json();
  auto const& node = json["members"][1];
  CHECK(node["host"] == "node2");
  CHECK(node["first_rank"] == 1);
  CHECK(node["heard_ago_ms"] == 0);
  CHECK(json["members"][0]["heard_ago_ms"] == 5000);
  CHECK(json["figures"].size() == node["ranks"][0].size());
  CHECK(json["figures"][0] == "per_step_ms");
  CHECK(node["ranks"][0][0] == 400);  // 10 steps in 4 s
  CHECK(node["ranks"][1][0] == -1);
  CHECK(json["figures"][1] == "step");
  CHECK(node["ranks"][0][1] == 20);
}

TEST_CASE("live: a step time is of the last ten seconds, and of this generation alone") {
  Job job;
  job.start(1, 1, 1);
  auto const see = [&job](std::uint64_t generation, std::int64_t step) {
    fold(job.live, 3, "node1", pulse(generation, 0, {told(step, 0)}), job.now);
    return job.live.members.at(3).speeds[0].per_step;
  };
  see(1, 10);
  job.now += 1s;
  CHECK(see(1, 11) == 1s);
  job.now += 5s;
  CHECK(see(1, 21) == 1s);  // not yet
  job.now += 5s;
  CHECK(see(1, 31) == 500ms);
  job.now += 20s;
  CHECK(see(1, 31) == 500ms);  // it stands still
  CHECK_FALSE(see(2, 5));
}

TEST_CASE("live: what a step took an hour ago is told, and only that") {
  Job job;
  job.start(1, 1, 3);
  std::int64_t step = 10;
  auto const train = [&](int minutes, std::int64_t steps) {  // in each 10 s
    for (int i = 0; i < minutes * 6; ++i) {
      job.now += 10s;
      step += steps;
      fold(job.live, 3, "node1", pulse(1, 0, {told(step, 0), told(step, 0), told(1, -1)}), job.now);
    }
    return job.json().value("hour_ago_per_step_ms", -1);
  };
  CHECK(train(59, 10) == -1);
  CHECK(train(59, 5) == 1000);
  CHECK(train(3, 5) == 2000);
  CHECK(job.live.step_times.size() <= 361);
  job.now += 30min;
  CHECK(train(1, 5) == 2000);
  job.now += 3h;
  CHECK(train(1, 5) == -1);
}

TEST_CASE("live: a rank that is slow is told of when that begins and ends, and shown in between") {
  Job job;
  job.start(1, 2, 4);
  std::vector<Row> rows(4);
  auto const window = [&](std::int64_t late_ms) {  // of steps of 250 ms
    job.now += 5s;
    for (std::size_t i = 0; i < 4; ++i) {
      of(rows[i], Figure::at) += 5000;
      of(rows[i], Figure::step) += 20;
      of(rows[i], Figure::inside) += (i == 3 ? 60 - late_ms : 60) * 20'000;
    }
    fold(job.live, 3, "node1", pulse(1, 0, {rows[0], rows[1]}), job.now);
    CHECK(look_for_slow(job.live, job.now).empty());  // the other node has not been heard of yet
    job.now += 2s;
    fold(job.live, 7, "node2", pulse(1, 2, {rows[2], rows[3]}), job.now);
    return look_for_slow(job.live, job.now);
  };
  for (int i = 0; i < 4; ++i) {
    CHECK(window(50).empty());
  }
  CHECK(job.json()["slow"].empty());
  auto const begins = window(50);
  REQUIRE(begins.size() == 1);
  CHECK(begins[0].rank == 3);
  CHECK(begins[0].ranks == 1);
  CHECK(begins[0].host == "node2");
  CHECK_FALSE(begins[0].over);
  // A window is 7 s by the coordinator's clock here.
  CHECK(sentence_of(begins[0]) ==
        "rank 3 on node2 is 0.07 s late in each step of 0.35 s (20 %); by its time in calls of libcxxrun");
  job.happens(begins[0]);
  auto const json = job.json();
  CHECK(json["slow"][0]["rank"] == 3);
  CHECK(json["slow"][0]["percent"] == 20);
  CHECK(json["slow"][0]["source"] == "libcxxrun");
  CHECK(json["slow"][0]["says"] == sentence_of(begins[0]));
  CHECK(json["events"].back()["kind"] == "slow");
  CHECK(json["events"].back()["late_s"] == 0.07);
  set_gpu(rows[3], {4, 97, 1290, 1980, Throttle::heat});
  fold(job.live, 7, "node2", pulse(1, 2, {rows[2], rows[3]}), job.now);
  CHECK(job.json()["slow"][0]["says"] == sentence_of(begins[0]) + "; GPU 4 is throttled by heat, 1290 of 1980 MHz");
  for (int i = 0; i < 4; ++i) {
    CHECK(window(0).empty());
  }
  auto const ends = window(0);
  REQUIRE(ends.size() == 1);
  CHECK(sentence_of(ends[0]) == "rank 3 on node2 holds up the others no more");
  job.happens(ends[0]);
  CHECK(job.json()["events"].back()["over"] == true);
  CHECK(job.json()["slow"].empty());
}

TEST_CASE("live: what was found before a node stood still does not count") {
  Job job;
  job.start(1, 1, 3);
  std::vector<Row> rows(3);
  auto const window = [&](Millis passes) {
    job.now += passes;
    for (std::size_t i = 0; i < 3; ++i) {
      of(rows[i], Figure::at) += passes.count();
      of(rows[i], Figure::step) += 20;
      of(rows[i], Figure::inside) += i == 0 ? 200'000 : 1'200'000;
    }
    fold(job.live, 3, "node1", pulse(1, 0, rows), job.now);
    return look_for_slow(job.live, job.now).size();
  };
  CHECK(window(5s) + window(5s) + window(5s) + window(5s) == 0);
  CHECK(window(20s) + window(5s) + window(5s) == 0);
  CHECK(window(5s) == 1);
  job.start(2, 1, 3);
  CHECK(job.json()["slow"].empty());
}

TEST_CASE("live: what the pulses say of steps and checkpoints is of the whole generation, by the coordinator's clock") {
  Job job;
  job.start(1, 2, 2);
  CHECK_FALSE(idle_until(job.live));
  fold(job.live, 3, "node1", pulse(1, 0, {told(0, -1)}), job.now);
  CHECK_FALSE(idle_until(job.live));  // the other node may have made a step
  job.now += 2s;
  fold(job.live, 7, "node2", pulse(1, 1, {told(0, -1)}), job.now);
  CHECK(idle_until(job.live) == job.now - 2s);
  CHECK_FALSE(job.json().contains("checkpoint_ago_ms"));
  auto one = pulse(1, 0, {told(9, 100)});
  one.steps = {9000ms, 100ms, 500ms};
  one.saved = 7000ms;
  job.now += 10s;
  fold(job.live, 3, "node1", one, job.now);
  CHECK(job.live.steps == rendezvous::StepTimes{job.now - 9s, job.now - 100ms, 500ms});
  CHECK_FALSE(idle_until(job.live));
  auto other = pulse(1, 1, {told(9, 100)});
  other.saved = 8000ms;  // an older one
  fold(job.live, 7, "node2", other, job.now);
  CHECK(job.json()["checkpoint_ago_ms"] == 7000);
  job.start(2, 2, 2);
  CHECK(job.live.steps == rendezvous::StepTimes{});
  fold(job.live, 3, "node1", one, job.now);  // of the generation before
  CHECK(job.live.steps == rendezvous::StepTimes{});
  CHECK(job.json()["checkpoint_ago_ms"] == 7000);
}

TEST_CASE("live: the account is told as it was known last, and no part of it becomes less") {
  Job job;
  CHECK_FALSE(job.json().contains("account"));
  rendezvous::History known;
  known.account[rendezvous::Spent::training] = 60s;
  known.account[rendezvous::Spent::startup] = 2s;
  fold(job.live, known);
  CHECK(job.json()["account"]["training_ms"] == 60'000);
  CHECK(job.json()["account"]["steps_known"] == false);
  known.account[rendezvous::Spent::training] = 59s;
  known.account[rendezvous::Spent::startup] = 3s;
  known.steps = true;
  fold(job.live, known);
  CHECK(job.json()["account"] == nlohmann::json{{"waiting_ms", 0},
                                                {"startup_ms", 3000},
                                                {"training_ms", 60'000},
                                                {"checkpoint_ms", 0},
                                                {"lost_ms", 0},
                                                {"stopping_ms", 0},
                                                {"steps_known", true}});
  job.happens(story::NodeLost{"node2", "silent"});
  CHECK(job.json()["nodes_lost"] == 1);
}

TEST_CASE("live: numbers that no worker can have are no trouble") {
  Job job;
  job.start(1, 1, 1);
  auto const most = std::numeric_limits<std::int64_t>::max();
  for (auto const& row : {told(most, most), told(-1, -7), told(most, 0), told(1, 0), told(most, 0)}) {
    fold(job.live, 3, "node1", pulse(1, 0xffff'ffff, {row}), job.now);
    job.now += 11s;
    CHECK(job.json()["members"].size() == 1);
  }
  fold(job.live, 3, "node1\n\"\xff", {1, 0, 1'000'000, {1, 2, 3}}, job.now);  // less than the figures of one worker
  CHECK(job.json()["members"][0]["ranks"].empty());
}

TEST_CASE("live: of a pulse of another version the figures that are known count") {
  Job job;
  job.start(1, 1, 2);
  fold(job.live, 3, "node1", {1, 0, 2, {10, 100, 11, 200}}, job.now);
  CHECK(job.json()["members"][0]["ranks"][1] == nlohmann::json({-1, 11, 200}));
  fold(job.live, 3, "node1", {1, 0, kFigures + 1, std::vector<std::int64_t>(kFigures + 1, 7)}, job.now);
  auto const json = job.json();
  CHECK(json["members"][0]["ranks"][0].size() == 1 + kFigureNames.size() + kGpuFigureNames.size());  // with the speed
  CHECK(json["figures"].size() == json["members"][0]["ranks"][0].size());
}

TEST_CASE("live: figures of GPUs are shown where there are any, and then of all nodes") {
  Job job;
  job.start(1, 2, 2);
  auto narrow = pulse(1, 0, {told(10, 0)});
  narrow.width = kGpuFigures;
  narrow.figures.resize(kGpuFigures);
  fold(job.live, 3, "node1", narrow, job.now);
  CHECK(job.json()["figures"].size() == 1 + kFigureNames.size());
  auto row = told(10, 0);
  set_gpu(row, {4, 97, 1290, 1980, Throttle::heat});
  fold(job.live, 7, "node2", pulse(1, 1, {row}), job.now);
  auto const json = job.json();
  CHECK(json["figures"][8] == "gpu");
  CHECK(json["members"][0]["ranks"][0] == nlohmann::json({-1, 10, 0, 20, 0, 0, 0, 'R', 0, 0, 0, 0, 0}));
  CHECK(json["members"][1]["ranks"][0] == nlohmann::json({-1, 10, 0, 20, 0, 0, 0, 'R', 5, 97, 1290, 1980, 1}));
}

TEST_CASE("live: who is silent for a minute, and whoever was in the generation before, is forgotten") {
  Job job;
  job.start(1, 2, 2);
  fold(job.live, 3, "node1", pulse(1, 0, {told(1, 0)}), job.now);
  fold(job.live, 7, "node2", pulse(1, 1, {told(1, 0)}), job.now);
  CHECK(agent_of(job.live, 1) == 7U);
  CHECK_FALSE(agent_of(job.live, 2));
  job.now += 61s;
  fold(job.live, 3, "node1", pulse(1, 0, {told(1, 0)}), job.now);
  CHECK(job.live.members.size() == 1);
  job.start(2, 2, 2);
  CHECK(job.live.members.empty());
}

TEST_CASE("live: pulses come every five seconds, each second for who watches, and less often from many nodes") {
  Live live;
  CHECK(pace_of(live, false) == 5s);
  CHECK(pace_of(live, true) == 1s);
  live.nodes = 2048;
  CHECK(pace_of(live, true) == 8192ms);  // 32 us each: less than a percent of a core
  CHECK(pace_of(live, false) == 8192ms);
}

TEST_CASE("live: the last thousand events are kept, by numbers that go on") {
  Job job;
  for (int i = 0; i < 1500; ++i) {
    job.happens(story::NodeJoined{"node" + std::to_string(i), 1});
  }
  auto const count = [&job](std::uint64_t after) {
    auto const text = lines_json(job.live, {}, after);
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(count(0) == 1001);
  CHECK(count(1499) == 2);
  CHECK(count(1500) == 1);
  CHECK(lines_json(job.live, {"r", "h", "p", {}, "n1"}, 1499)
            .starts_with("{\"nonce\":\"n1\"}\n{\"number\":1500,\"time\":"));
  CHECK(job.json()["events"].size() == 20);
}

TEST_CASE("live: a number of an event means nothing to another coordinator") {
  Facts const facts{"r", "h", "p", {}, "n1"};
  CHECK(known_to({Question::What::follow, 7, {}, std::nullopt, "", "n1"}, facts) == 7);
  CHECK(known_to({Question::What::follow, 7, {}, std::nullopt, "", "n2"}, facts) == 0);
  CHECK(known_to({Question::What::follow, 7, {}}, facts) == 0);
}

TEST_CASE("live: whoever was elected knows of the time before, and names nobody until the pulses come") {
  Job job;
  rendezvous::History known;
  known.ranks = 16;
  job.now += 60s;
  job.happens(story::TookOver{4, known, {}});
  auto const json = job.json();
  CHECK(json["phase"] == "waiting");
  CHECK(json["job_ms"] == 60'000);
  CHECK(json["generation"] == 4);
  CHECK(json["members"].empty());
}

TEST_CASE("live: what a host or a worker says of itself stays one line of JSON") {
  CHECK(error_json("a\n\"b\xff") == "{\"error\":\"a\\n\\\"b\xef\xbf\xbd\"}\n");
  auto const stack = nlohmann::json::parse(stack_json(3, "node1", {"a.py:3 in \x1b[31m"}, ""));
  CHECK(stack["frames"][0] == "a.py:3 in \x1b[31m");
  auto const tail = nlohmann::json::parse(tail_json(3, "node1", {"/logs/x", "\xff\n", 0, ""}));
  CHECK(tail["text"] == "\xef\xbf\xbd\n");
  CHECK(nlohmann::json::parse(who_json("r", "", "h"))["run_id"] == "r");
}

TEST_CASE("live: a slow rank is found at whatever instants the nodes send their pulses") {
  Job job;
  constexpr std::uint32_t kNodes = 8;
  job.start(1, kNodes, kNodes);
  std::vector<story::Slow> found;
  for (std::int64_t round = 1; round <= 8; ++round) {
    for (std::uint32_t node = 0; node < kNodes; ++node) {
      job.now = kStart + Millis(5000 * round + 600 * node);
      auto row = told(20 * round, 0);
      of(row, Figure::at) = 5000 * round;
      of(row, Figure::inside) = 5000 * round * (node == 5 ? 30 : 100);
      fold(job.live, node + 1, "node", pulse(1, node, {row}), job.now);
      for (auto& slow : look_for_slow(job.live, job.now)) {
        found.push_back(std::move(slow));
      }
    }
  }
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 5);
}
