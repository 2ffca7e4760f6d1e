#include "launcher/view/page_state.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "launcher/view/figures.hpp"
#include "tests/launcher/view/table_of.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                  // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::view;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

Json whole(Table const& table) {
  return Json::parse(state_json(page_state(table)));
}
/// The JSON of one event of a stream.
Json data_of(std::string const& event, std::string const& kind) {
  auto const head = "event: " + kind + "\ndata: ";
  REQUIRE(event.starts_with(head));
  REQUIRE(event.ends_with("\n\n"));
  REQUIRE(event.find('\n', head.size()) == event.size() - 2);
  return Json::parse(event.substr(head.size()));
}

}  // namespace

TEST_CASE("page: the state says what status says, and figures as differences from the furthest rank") {
  auto table = table_of(2, 2);
  auto& late = table.members[1].workers[0];
  late.step -= 2;
  late.begun -= 8;
  late.per_step = 1930ms;
  late.state = 'S';
  table.slow.push_back(slow_rank(2));
  table.events.push_back({5'515'000ms, "worker failed"});
  auto const state = whole(table);
  CHECK(state["says"] == "is SLOW: rank is late");
  CHECK(state["well"] == true);
  CHECK(state["trouble"] == "");
  CHECK(state["steps"] == 12'480);
  CHECK(state["step_ms"] == 1910);
  CHECK(state["max_restarts"] == 3);
  CHECK(state["by"] == "rank");
  CHECK(state["hosts"] == Json({"node0", "node1"}));
  CHECK(state["firsts"] == Json({0, 2}));
  CHECK(state["behind"] == Json({0, 0, 2, 0}));
  CHECK(state["unbegun"] == Json({0, 0, 8, 0}));
  CHECK(state["extra_ms"] == Json({0, 0, 20, 0}));
  CHECK(state["cpu"] == Json({97, 97, 97, 97}));
  CHECK(state["state"] == Json({"R", "R", "S", "R"}));
  CHECK(state["slow"] == Json::array({{2, 1, "node1", 310, 16, "input", "ddp"}}));
  CHECK(state["events"] == Json::array({{5515, "worker failed"}}));
}

TEST_CASE("page: the state says what the time was spent on, and nothing where that is not known") {
  auto state = whole(accounted(table_of(1, 1)));
  CHECK(state["goodput"] == "90.1 %");
  CHECK(state["spent"] ==
        Json::array(
            {{"waiting", 0}, {"startup", 110}, {"training", 7200}, {"checkpoint", 0}, {"lost", 551}, {"stopping", 0}}));
  CHECK(state["checkpoint_s"] == 724);
  state = whole(table_of(1, 1));
  CHECK(state["goodput"].is_null());
  CHECK(state["spent"] == Json::array());
  CHECK(state["checkpoint_s"].is_null());
}

TEST_CASE("page: the GPU of each rank is a column where any is known, and of a node the least busy one") {
  auto table = table_of(1, 2);
  CHECK(whole(table)["gpu"] == Json::array());
  table.gpus = true;
  table.members[0].workers[1].gpu.emplace().percent = 97;
  CHECK(whole(table)["gpu"] == Json({nullptr, 97}));
  table = table_of(513, 2);
  table.gpus = true;
  table.members[1].workers[0].gpu.emplace().percent = 97;
  table.members[1].workers[1].gpu.emplace().percent = 61;
  CHECK(whole(table)["gpu"][0].is_null());
  CHECK(whole(table)["gpu"][1] == 61);
  CHECK(whole(table)["far"][0].size() == 10);
}

TEST_CASE("page: without steps, and without workers, there is nothing instead of a zero") {
  auto table = table_of(1, 1);
  table.members[0].workers[0].step_ago.reset();
  table.members[0].workers[0].per_step.reset();
  table.max_restarts.reset();
  table.generation_age.reset();
  auto state = whole(table);
  for (auto const* const name : {"steps", "step_ms", "max_restarts", "generation_s"}) {
    CHECK(state[name].is_null());
  }
  CHECK(state["extra_ms"] == Json::array({nullptr}));
  table.members[0].generation = 1;  // of the generation before
  table.members.push_back({"idle", 2, 0ms, {}});
  state = whole(table);
  CHECK(state["hosts"] == Json::array());
  CHECK(state["behind"] == Json::array());
  CHECK(state["others"] == 2);
}

TEST_CASE("page: a tick has what is different, and all fields after a time without any") {
  auto table = table_of(2, 2);
  auto const before = page_state(table);
  CHECK(data_of(tick_event(before, before), "tick") == Json::object());
  table.job_age += 1s;
  table.members[1].workers[1].memory_mib = 90'000;
  CHECK(data_of(tick_event(before, page_state(table)), "tick") ==
        Json({{"job_s", 7986}, {"memory_mib", {88'000, 88'000, 88'000, 90'000}}}));
  auto const lost = with_trouble(before, "no coordinator:\nan election is under way");
  CHECK(data_of(tick_event(before, lost), "tick") == Json({{"trouble", "no coordinator:?an election is under way"}}));
  auto const nothing = with_trouble({}, "no coordinator");
  CHECK(data_of(all_event(nothing), "all") == Json({{"trouble", "no coordinator"}}));
  CHECK(data_of(tick_event(nothing, before), "tick") == data_of(all_event(before), "all"));
  CHECK(data_of(over_event("it\nis"), "over") == "it?is");
}

TEST_CASE("page: a tick of 1,024 ranks is below 20 KB, and more ranks are shown by node") {
  auto table = table_of(128, 8);
  auto const before = page_state(table);
  std::uint64_t n = 0;
  for (auto& node : table.members) {
    for (auto& worker : node.workers) {
      ++n;
      worker.step += 1 + n % 2;
      worker.begun += 4 + n % 3;
      worker.memory_mib += n % 7;
      worker.permille = 900 + n % 100;
      worker.per_step = 1900ms + Millis(n % 30);
    }
  }
  CHECK(whole(table)["behind"].size() == kMostCells);
  CHECK(tick_event(before, page_state(table)).size() < 20'000);

  table = table_of(2048, 8);
  table.members[700].workers[3].step -= 5;
  table.members[700].workers[4].state = 'D';
  auto const state = whole(table);
  CHECK(state["by"] == "node");
  CHECK(state["behind"].size() == 2048);
  CHECK(state["behind"][700] == 5);
  CHECK(state["state"][700] == "DR");
  CHECK(state["cpu"][0] == 8 * 97);
  CHECK(state["far"].size() == kFurthest);
  CHECK(std::count_if(state["far"].begin(), state["far"].end(), [](Json const& row) {
          return row == Json({5603, "node700", 5, 0, 0, 1, 88'000, 97, "R", nullptr});
        }) == 1);
}

TEST_CASE("page: what a worker writes stays text") {
  Items<Tail> tails;
  tails.items.push_back({3, "node0", "3.log", "</pre><script>alert(1)</script>\n\033[31mred\033[0m\a \xff\n"});
  tails.errors.emplace_back("no answer from node1");
  auto const json = Json::parse(tails_json(tails));
  CHECK(json["files"][0]["text"] == "</pre><script>alert(1)</script>\nred? \xef\xbf\xbd\n");
  CHECK(json["files"][0]["file"] == "3.log");
  CHECK(json["errors"] == Json::array({"no answer from node1"}));
  Items<Stack> stacks;
  stacks.items.push_back({3, "node0", "", {"File \"train.py\", line 4 in load"}});
  CHECK(Json::parse(stacks_json(stacks))["stacks"][0]["frames"][0] == "File \"train.py\", line 4 in load");
  CHECK(Json::parse(page_error_json("it\nis")) == Json({{"error", "it?is"}}));
}
