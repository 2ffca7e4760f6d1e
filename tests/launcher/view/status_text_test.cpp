// What cxxrunctl shows of an answer, from its bytes to the screen.
#include "launcher/view/status_text.hpp"

#include <sstream>

#include <nlohmann/json.hpp>

#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                  // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::view;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using Json = nlohmann::json;

namespace {

/// per step, step, ago, begun, waits, memory, processor, state
using Row = std::vector<std::int64_t>;

Json node(std::string const& host, int first, std::vector<Row> const& rows, int heard_ago = 400) {
  return {{"host", host}, {"generation", 2}, {"heard_ago_ms", heard_ago}, {"first_rank", first}, {"ranks", rows}};
}

Json job(std::vector<Json> const& members, std::string const& phase = "running") {
  return {{"version", 1},
          {"run_id", "4711.0"},
          {"coordinator", "node1"},
          {"program", "train.py"},
          {"phase", phase},
          {"phase_ms", 120'000},
          {"job_ms", 7'985'000},
          {"generation", 2},
          {"generation_ms", 2'470'000},
          {"nodes", 2},
          {"ranks", 4},
          {"restarts", 1},
          {"max_restarts", 3},
          {"why", ""},
          {"figures",
           {"per_step_ms", "step", "step_ago_ms", "begun", "waits", "memory_mib", "processor_permille", "state"}},
          {"members", members},
          {"events", Json::array()}};
}

Table table_of(Json const& json) {
  auto table = read_table(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  REQUIRE(table);
  return *std::move(table);
}

Row healthy(std::int64_t step = 12'480) {
  return {1910, step, 300, step * 4, 1, 88'000, 970, 'R'};
}

std::string says(Json const& json) {
  return judge(table_of(json)).sentence;
}
bool well(Json const& json) {
  return judge(table_of(json)).well;
}

}  // namespace

TEST_CASE("status: a job that trains is one sentence, then the figures of its nodes") {
  auto json = job({node("node2", 2, {healthy(), healthy()}), node("node1", 0, {healthy(), healthy()})});
  json["events"] = {{{"kind", "worker_failed"}, {"at_s", 5515.0}, {"rank", 3}, {"host", "node1"}, {"how", "signal 9"}},
                    {{"kind", "time"}, {"at_s", 5516.0}}};
  CHECK(status_text(table_of(json), false) ==
        "4711.0 trains: step 12480, 1.91 s a step\n"
        "train.py, 2:13:05 h; generation 2 for 0:41:10 h; 4 ranks on 2 nodes\n"
        "restarts 1 of 3; coordinated on node1\n"
        "node            ranks           step    a step    begun wait MiB max   CPU state\n"
        "node1           0-1            12480    1.91 s    49920    2   88000  194% R\n"
        "node2           2-3            12480    1.91 s    49920    2   88000  194% R\n"
        "0:41:10 h ago  worker failed rank 3 node1: signal 9\n");
  CHECK(well(json));
}

TEST_CASE("status: the time of a step an hour ago is told where it was another one") {
  auto json = job({node("node1", 0, {healthy(), healthy()})});
  json["hour_ago_per_step_ms"] = 1600;
  CHECK(says(json) == "trains: step 12480, 1.91 s a step (1.6 s an hour ago)");
  CHECK(Json::parse(table_json(table_of(json), "", true))["hour_ago_per_step_ms"] == 1600);
  json["hour_ago_per_step_ms"] = 1890;
  CHECK(says(json) == "trains: step 12480, 1.91 s a step");
}

TEST_CASE("status: goodput is shown where it is known, and with -v what the time was spent on") {
  auto json = job({node("node1", 0, {healthy(), healthy()})});
  json["account"] = {{"waiting_ms", 33'200}, {"startup_ms", 0},  {"training_ms", 7'202'000},
                     {"lost_ms", 551'000},   {"stopping_ms", 0}, {"steps_known", true}};
  json["checkpoint_ago_ms"] = 724'000;
  json["nodes_lost"] = 1;
  auto const table = table_of(json);
  auto const text = status_text(table, false);
  CHECK(text.find("\ngoodput 90.1 %; restarts 1 of 3; coordinated on node1\nnode  ") != std::string::npos);
  CHECK(text.find("spent") == std::string::npos);
  CHECK(status_text(table, true)
            .find("\nspent: waiting 33.2 s, training 2:00:02 h, lost 0:09:11 h; last checkpoint\n"
                  "      0:12:04 h ago\nnode  ") != std::string::npos);
  auto const told = Json::parse(table_json(table, "trains", true));
  CHECK(told["version"] == 1);
  CHECK(told["account"] == Json{{"waiting_ms", 33'200},
                                {"startup_ms", 0},
                                {"training_ms", 7'202'000},
                                {"checkpoint_ms", 0},
                                {"lost_ms", 551'000},
                                {"stopping_ms", 0},
                                {"steps_known", true},
                                {"goodput_percent", 90.1}});
  CHECK(told["checkpoint_ago_ms"] == 724'000);
  CHECK(told["nodes_lost"] == 1);

  json["account"]["steps_known"] = 7;
  CHECK(status_text(table_of(json), false).find("goodput") == std::string::npos);
  CHECK_FALSE(Json::parse(table_json(table_of(json), "", true))["account"].contains("goodput_percent"));
  for (auto const& absurd : {Json(7), Json::array({1}), Json(nullptr)}) {
    json["account"] = absurd;
    CHECK_FALSE(table_of(json).account);
  }
  json["account"] = {{"training_ms", -5}, {"lost_ms", 1e300}, {"waiting_ms", UINT64_MAX}};
  CHECK_FALSE(status_text(table_of(json), true).empty());
  CHECK_FALSE(Json::parse(table_json(table_of(job({})), "", true)).contains("account"));
}

TEST_CASE("status: no step for ten times the usual one is standing still, and who is behind is named") {
  auto late = healthy();
  late[3] -= 1;
  auto still = [&](std::int64_t ago) {
    auto one = healthy();
    auto two = late;
    one[2] = two[2] = ago;
    return job({node("node1", 0, {one, one}), node("node2", 2, {two, one})});
  };
  CHECK(says(still(62'000)) ==
        "STANDS STILL: no step for 0:01:02 h, 1.91 s is usual; rank 2 on node2 has begun 49919 collectives, others "
        "49920");
  CHECK_FALSE(well(still(62'000)));
  CHECK(well(still(18'000)));
  auto equal = job({node("node1", 0, {{1910, 5, 62'000, 10, 1, 1, 1, 'S'}}),
                    node("node2", 1, {{1910, 5, 62'000, 10, 1, 1, 1, 'S'}})});
  CHECK(says(equal) == "STANDS STILL: no step for 0:01:02 h, 1.91 s is usual");
  auto fast = job({node("node1", 0, {{5, 5, 9'000, 10, 1, 1, 1, 'S'}})});
  CHECK(well(fast));  // a pause of some seconds may be an evaluation
}

TEST_CASE("status: a worker that is stopped, and a node that is silent, come first") {
  auto stopped = healthy();
  stopped[7] = 'T';
  auto const json = job({node("node1", 0, {healthy(), healthy()}), node("node2", 2, {stopped, healthy()})});
  CHECK(says(json) == "STANDS STILL: rank 2 on node2 is stopped (SIGSTOP)");
  auto const silent = job({node("node1", 0, {healthy()}), node("node2", 1, {healthy()}, 17'000)});
  CHECK(says(silent) == "is SILENT in part: no word from node2 for 17.0 s");
  CHECK(status_text(table_of(silent), false).find("\nnode2           1           silent for 17.0 s\n") !=
        std::string::npos);
}

TEST_CASE("status: who is slow comes first, and with a mark on the node, in a job that gets on") {
  auto json = job({node("node1", 0, {healthy(), healthy()}), node("node2", 2, {healthy(), healthy()})});
  json["slow"].push_back({{"rank", 3},
                          {"ranks", 1},
                          {"host", "node2"},
                          {"late_ms", 310},
                          {"percent", 16},
                          {"source", "ddp"},
                          {"spent", "input"},
                          {"says", "rank 3 on node2 is 0.31 s late in each step of 1.91 s (16 %), input; by the log"}});
  CHECK(says(json) == "is SLOW: rank 3 on node2 is 0.31 s late in each step of 1.91 s (16 %), input; by the log");
  CHECK(well(json));
  auto const text = status_text(table_of(json), false);
  CHECK(text.find("node1           0-1            12480    1.91 s    49920    2   88000  194% R\n") !=
        std::string::npos);
  CHECK(text.find("node2           2-3            12480    1.91 s    49920    2   88000  194% SLOW\n") !=
        std::string::npos);
  CHECK(Json::parse(table_json(table_of(json), "", true))["slow"][0]["late_ms"] == 310);
  CHECK(slow_ranks(table_of(json), 64) == std::vector<std::uint32_t>{3});
  json["slow"][0]["ranks"] = 4'000'000'000;
  CHECK(slow_ranks(table_of(json), 64).size() == 64);
  json["slow"] = 7;
  CHECK(table_of(json).slow.size() <= 1);
}

TEST_CASE("status: GPUs have a column where any is known, and a driver that does not answer is in the sentence") {
  auto const with_gpu = [](Row const& gpu) {
    auto row = healthy();
    row.insert(row.end(), gpu.begin(), gpu.end());
    return row;
  };
  auto json = job({node("node1", 0, {with_gpu({5, 97, 1290, 1980, 1}), with_gpu({1, 61, 1980, 0, 0})}),
                   node("node2", 2, {with_gpu({0, 0, 0, 0, 0}), with_gpu({-1, 0, 0, 0, 0})})});
  CHECK(status_text(table_of(json), false).find(" GPU ") == std::string::npos);  // an answer that does not name them
  for (auto const* const name : {"gpu", "gpu_percent", "gpu_mhz", "gpu_max_mhz", "throttled"}) {
    json["figures"].push_back(name);
  }
  auto const table = table_of(json);
  CHECK(judge(table).sentence == "trains: step 12480, 1.91 s a step; node2: the GPU driver does not answer");
  CHECK(judge(table).well);
  CHECK(status_text(table, false)
            .find("node          ranks          step   a step   begun wait MiB max   CPU  GPU state\n"
                  "node1         0-1           12480   1.91 s   49920    2   88000  194%  61% R\n"
                  "node2         2-3           12480   1.91 s   49920    2   88000  194%    - R\n") !=
        std::string::npos);
  auto const workers = Json::parse(table_json(table, "", true))["workers"];
  CHECK(workers[0]["gpu_percent"] == 97);
  CHECK(workers[0]["gpu_mhz"] == 1290);
  CHECK(workers[0]["gpu_max_mhz"] == 1980);
  CHECK(workers[0]["throttled"] == "heat");
  CHECK(workers[1]["throttled"] == "");
  CHECK_FALSE(workers[1].contains("gpu_max_mhz"));
  CHECK_FALSE(workers[2].contains("gpu_percent"));
  json["members"][1]["ranks"][1][8] = "x";
  CHECK(says(json) == "trains: step 12480, 1.91 s a step");
}

TEST_CASE("status: without training steps, without pulses and outside of a generation it says what is known") {
  CHECK(says(job({node("node1", 0, {{-1, 0, -1, 0, 0, 20, 5, 'S'}})})) ==
        "runs for 0:02:00 h: its program has reported no training step yet");
  CHECK(says(job({node("node1", 0, {{-1, 0, -1, 7, 0, 20, 5, 'S'}})})) ==
        "runs for 0:02:00 h: its program has reported no training step yet; 7 collectives begun");
  CHECK(says(job({})) == "runs for 0:02:00 h: its program has reported no training step yet");
  CHECK(says(job({}, "starting")) == "starts 4 ranks on 2 nodes for 0:02:00 h");
  auto json = job({}, "waiting");
  json["why"] = "lost node2";
  CHECK(says(json) == "WAITS for nodes for 0:02:00 h: lost node2");
  json["phase"] = "over";
  CHECK(says(json) == "is OVER: lost node2");
  json["phase"] = "stopping";
  CHECK(says(json) == "STOPS its workers for 0:02:00 h: lost node2");
  CHECK_FALSE(well(json));
}

TEST_CASE("status: a screen has at most 24 lines of 80 columns of ASCII, whatever a job is") {
  std::vector<Json> members;
  for (int i = 0; i < 500; ++i) {
    members.push_back(node("a-very-long-host-name-\xc3\xa4\x1b[31m-" + std::to_string(i), i, {healthy()}, 100'000));
  }
  auto json = job(members);
  json["why"] = std::string(5000, 'w');
  json["program"] = "<b>\n\x07" + std::string(300, 'p');
  json["run_id"] = std::string(300, 'r');
  for (int i = 0; i < 20; ++i) {
    json["events"].push_back(
        {{"kind", "node_lost"}, {"at_s", i}, {"host", "x"}, {"how", std::string(300, 'h') + "\n"}});
  }
  auto const text = status_text(table_of(json), false);
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    CHECK(line.size() <= 80);
    CHECK(line.find_first_not_of(
              " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz"
              "{|}~") == std::string::npos);
  }
  CHECK(count <= 24);
  CHECK(text.find("and 489 nodes more") != std::string::npos);
  CHECK(status_text(table_of(json), true).size() > text.size());
}

TEST_CASE("status: an answer that is none, or one that says why there is none, is told") {
  CHECK(read_table("").error().code == Errc::protocol);
  CHECK(read_table("[1]").error().code == Errc::protocol);
  auto const refused = read_table("{\"error\":\"no coordinator: an election is under way\\u001b\"}");
  CHECK(refused.error().context == "no coordinator: an election is under way?");
  auto const empty = read_table("{}");
  REQUIRE(empty);
  CHECK_FALSE(status_text(*empty, false).empty());
  for (auto const* const text : {R"({"members":7,"events":{"a":1},"figures":[1,2]})",
                                 R"({"members":[{"ranks":[[1],5,{"a":1}],"first_rank":-1}],"figures":["step"]})",
                                 R"({"job_ms":18446744073709551615,"phase_ms":-5,"generation_ms":1e300})",
                                 R"({"phase":"running","members":[null,{"host":3}],"events":[null,{"at_s":1e999}]})"}) {
    CAPTURE(text);
    auto const table = read_table(text);
    CHECK((!table || !status_text(*table, true).empty()));
  }
}

TEST_CASE("status: for programs each worker is an object, and the sentence stands beside the figures") {
  auto const table = table_of(job({node("node1", 0, {healthy(), {-1, 0, -1, 3, 0, 20, 5, 'S'}})}));
  auto const json = Json::parse(table_json(table, "trains", true));
  CHECK(json["version"] == 1);
  CHECK(json["says"] == "trains");
  CHECK(json["well"] == true);
  CHECK(json["workers"][0]["per_step_ms"] == 1910);
  CHECK(json["workers"][0]["state"] == "R");
  CHECK(json["workers"][1]["rank"] == 1);
  CHECK_FALSE(json["workers"][1].contains("step_ago_ms"));
}

TEST_CASE("stacks: equal ones are shown once, the rarest first") {
  std::string answer;
  for (int rank = 0; rank < 6; ++rank) {
    answer += Json{{"rank", rank},
                   {"host", "node1"},
                   {"place", ""},
                   {"frames", {rank == 3 ? "train.py:33 in load" : "train.py:88 in step", "train.py:9 in <module>"}}}
                  .dump() +
              "\n";
  }
  answer += R"({"rank":6,"host":"node2","place":"pid 71 (sh), state S, waiting in do_wait","frames":[]})"
            "\n";
  answer += R"({"rank":7,"host":"node2","place":"pid 72 (sh), state S, waiting in do_wait","frames":[]})"
            "\n";
  answer += "{\"error\":\"no answer within 8 s from node3\"}\nrubbish\n";
  auto const stacks = read_stacks(answer);
  CHECK(stacks.errors == std::vector<std::string>{"no answer within 8 s from node3"});
  CHECK(stacks_text(stacks.items, false) ==
        "rank 3 on node1\n"
        "    train.py:33 in load\n"
        "    train.py:9 in <module>\n"
        "ranks 6-7: pid 71 (sh), state S, waiting in do_wait\n"
        "ranks 0-2,4-5\n"
        "    train.py:88 in step\n"
        "    train.py:9 in <module>\n");
}

TEST_CASE("logs: the last lines, as they are in a pipe and harmless on a terminal") {
  std::vector<Tail> const one{{3, "node1", "/logs/stderr.log", "a\nb\n\x1b[2Jc"}};
  CHECK(tails_text(one, 2, false) == "b\n\x1b[2Jc\n");
  CHECK(tails_text(one, 2, true).find('\x1b') == std::string::npos);
  CHECK(tails_text(one, 100, false) == "a\nb\n\x1b[2Jc\n");
  CHECK(tails_text({{3, "node1", "/x", "a\nb\n"}, {3, "node1", "/y", ""}}, 1, false) ==
        "==> node1:/x <==\nb\n==> node1:/y <==\n");
  CHECK(tails_text(one, 0, false).empty());
  CHECK(last_lines("a\nb\n", 1) == "b\n");
}

TEST_CASE("logs: of files that are followed, a line names each when another one goes on") {
  std::string shown;
  Tail const out{3, "node1", "/o", "a\n"};
  Tail const err{3, "node1", "/e", "b\x1b\n"};
  Tail const nothing{3, "node1", "/e", ""};
  CHECK(followed_text({out}, shown, true) == "a\n");
  CHECK(followed_text({out, nothing}, shown, true) == "a\n");
  CHECK(followed_text({out, err}, shown, true) == "a\n==> node1:/e <==\nb?\n");
  CHECK(followed_text({nothing}, shown, true).empty());
  CHECK(followed_text({err}, shown, false) == "b\x1b\n");
  shown.clear();
  CHECK(followed_text({out, err}, shown, true) == "==> node1:/o <==\na\n==> node1:/e <==\nb?\n");
}

TEST_CASE("logs: an answer says from where to go on") {
  auto const tails = read_tails(R"({"rank":3,"host":"h","file":"/x","text":"a\n","left_out":7,"place":"2:1:2:3:4"})"
                                "\n"
                                R"({"rank":3,"host":"h","file":"/y","text":"","place":"rubbish"})");
  REQUIRE(tails.items.size() == 2);
  CHECK(tails.items[0].left_out == 7);
  CHECK(tails.items[0].place == cxxrun::launcher::live::LogPlace{2, {{{1, 2}, {3, 4}}}});
  CHECK_FALSE(tails.items[1].place);
}

TEST_CASE("events: each is the line of events.jsonl") {
  auto const events = read_events(
      "{\"nonce\":\"n1\"}\n{\"number\":7,\"time\":\"t\",\"at_s\":1.5,\"kind\":\"started\"}\n{\"error\":\"x\"}\n");
  REQUIRE(events.items.size() == 1);
  CHECK(events.nonce == "n1");
  CHECK(events.items[0].number == 7);
  CHECK(events.items[0].line == R"({"time":"t","at_s":1.5,"kind":"started"})");
  CHECK_FALSE(events.items[0].last);
  CHECK(events.errors.size() == 1);
  CHECK(read_events("{\"number\":8,\"kind\":\"verdict\"}\n").items.at(0).last);
}

TEST_CASE("events: whoever follows reads each once, also after an error, and those of another coordinator anew") {
  Bookmark mark;
  // Numbers of the events that are shown.
  auto const told = [&mark](std::string const& nonce, std::vector<std::uint64_t> const& numbers) {
    std::string answer = nonce.empty() ? "{\"error\":\"no coordinator\"}\n" : "{\"nonce\":\"" + nonce + "\"}\n";
    for (auto const number : numbers) {
      answer += "{\"number\":" + std::to_string(number) + "}\n";
    }
    auto events = read_events(answer);
    std::vector<int> shown;
    advance(mark, events);
    for (auto const& event : events.items) {
      shown.push_back(static_cast<int>(event.number));
    }
    return shown;
  };
  using Shown = std::vector<int>;
  CHECK(told("", {}).empty());
  CHECK(told("n1", {1, 2, 7}) == Shown{1, 2, 7});
  CHECK(mark.after() == 7);
  CHECK(told("", {}).empty());
  CHECK(told("n1", {}).empty());
  CHECK(mark.after() == 7);
  CHECK(told("n2", {1, 2}) == Shown{1, 2});  // the answer to `follow 7 n1`
  CHECK(mark.nonce == "n2");
  CHECK(mark.after() == 2);
  CHECK(told("n1", {1, 2, 3, 4, 5, 6, 7, 8}) == Shown{8});  // elected again; the answer to `follow 2 n2`
  CHECK(mark.after() == 8);
  CHECK(told("n2", {}).empty());
  CHECK(mark.after() == 2);
  auto goes_on = read_events("{\"number\":3}\n");  // a later part of the same answer
  advance(mark, goes_on);
  CHECK(goes_on.items.size() == 1);
  CHECK(mark.after() == 3);
}

TEST_CASE("events: whoever falls behind is told how many are not kept any more") {
  Bookmark mark;
  auto first = read_events("{\"nonce\":\"n1\"}\n{\"number\":300}\n");
  advance(mark, first);
  CHECK(first.missed == 0);  // of a long job the first ones are gone
  auto later = read_events("{\"nonce\":\"n1\"}\n{\"number\":305}\n");
  advance(mark, later);
  CHECK(later.missed == 4);
}
