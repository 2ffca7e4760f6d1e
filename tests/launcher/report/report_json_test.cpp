// events.jsonl and verdict.json have the fields that docs/use/verdict.md says.
#include "launcher/report/report_json.hpp"

#include <algorithm>
#include <set>
#include <variant>

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
namespace story = rendezvous::story;
using Json = nlohmann::json;

namespace {

rendezvous::History some_history() {
  rendezvous::History history;
  history.account.spent = {1s, 2s, 1234ms, 3s, 4s, 5s};
  history.past = {{7, 2, 16, true, 3s, 60'500ms, 4s, "rank 3 on n1: exit code 1"}};
  history.left_out = 6;
  history.steps = true;
  return history;
}

template <std::size_t... I>
std::vector<story::What> one_of_each(std::index_sequence<I...> /*all*/) {
  return {std::variant_alternative_t<I, story::What>{}...};
}

std::set<std::string> keys(Json const& json) {
  std::set<std::string> names;
  for (auto const& [key, value] : json.items()) {
    names.insert(key);
  }
  return names;
}

std::set<std::string> documented(std::string const& head) {
  auto const rows = testing::documented_rows("use/verdict.md", head);
  return {rows.begin(), rows.end()};
}

}  // namespace

TEST_CASE("story: verdict.json has the fields of docs/use/verdict.md, no more and no fewer", "[unit]") {
  rendezvous::Verdict verdict;
  verdict.history = some_history();
  verdict.failures.resize(1);
  auto const json = Json::parse(verdict_json(verdict));
  CHECK(keys(json) == documented("field"));
  CHECK(keys(json["failures"][0]) == documented("field of a failure"));
  CHECK(keys(json["account"]) == documented("field of the account"));
  CHECK(keys(json["history"][0]) == documented("field of a generation"));
  CHECK(json["version"] == 1);
  CHECK(json["account"]["wall_s"] == 16.234);
  CHECK(json["account"]["training_s"] == 1.234);
  CHECK(json["account"]["checkpoint_s"] == 3);
  CHECK(json["account"]["goodput_percent"] == 7.6);
  CHECK(json["history"][0]["ran_s"] == 60.5);
  CHECK(json["history"][0]["why"] == "rank 3 on n1: exit code 1");
  CHECK(json["history_left_out"] == 6);
}

TEST_CASE("story: each kind of event has its row in docs/use/verdict.md", "[unit]") {
  std::set<std::string> kinds;
  for (auto const& what : one_of_each(std::make_index_sequence<std::variant_size_v<story::What>>{})) {
    auto const json = Json::parse(event_line({1500ms, what}, 0));
    CHECK(json["at_s"] == 1.5);
    CHECK(json["time"] == "1970-01-01T00:00:00.000Z");
    kinds.insert(json["kind"]);
  }
  CHECK(kinds == documented("kind"));
  CHECK(kinds.size() == std::variant_size_v<story::What>);
  CHECK(documented("field of an event") == std::set<std::string>{"time", "at_s", "kind"});
}

TEST_CASE("story: an event is one line of JSON, whatever hosts and workers say", "[unit]") {
  auto const line = event_line({0ms, story::NodeLost{"n\n1\x1b[2J", "\xff\xfe \"quoted\""}}, 1'700'000'000'007);
  CHECK(line.find('\n') == std::string::npos);
  CHECK(line.find('\x1b') == std::string::npos);
  auto const json = Json::parse(line);
  CHECK(json["time"] == "2023-11-14T22:13:20.007Z");
  CHECK(json["host"] == "n\n1\x1b[2J");
}

TEST_CASE("story: the first line says which version it is, and of which job", "[unit]") {
  auto const json = Json::parse(events_header("4711.0", "node1", 0));
  CHECK(json["version"] == kStoryVersion);
  CHECK(json["run_id"] == "4711.0");
  CHECK(json["host"] == "node1");
}

TEST_CASE("story: whoever takes over tells what it knows", "[unit]") {
  auto const json = Json::parse(event_line({9s, story::TookOver{8, some_history()}}, 0));
  CHECK(json["account"]["wall_s"] == 16.234);
  CHECK(json["history"][0]["generation"] == 7);
  CHECK(json["history_left_out"] == 6);
}

TEST_CASE("report: whoever has started cxxrun gets the error file with the worker's exit code, and else as it is",
          "[unit]") {
  auto const copy = [](char const* text, ExitStatus const& status) {
    return launcher::error_file_for_caller(text, status);
  };
  CHECK(copy(R"({"message": {"message": "ValueError: x", "extraInfo": {}}})", ExitStatus::exited(3)) ==
        R"({"message":{"errorCode":3,"extraInfo":{},"message":"ValueError: x"}})");
  CHECK(copy(R"({"message":{"errorCode":1}})", ExitStatus::signalled(11)) == R"({"message":{"errorCode":-11}})");
  for (auto const* const other : {R"({"message": "boom"})", R"({"error": 1})", "[1]", R"({"message": {"mess)"}) {
    CHECK(copy(other, ExitStatus::exited(1)) == other);
  }
  std::string const deep =
      R"({"message": {"x": )" + std::string(400'000, '[') + std::string(400'000, ']') + "}}";  // at most 1 MiB
  CHECK((copy(deep.c_str(), ExitStatus::exited(1)) == deep));
}

TEST_CASE("report: both forms of torch's error file are read, anything else is nothing", "[unit]") {
  CHECK(launcher::error_file_message(R"({"message":{"message":"ValueError: no\ndata","extraInfo":{}}})") ==
        "ValueError: no data");
  CHECK(launcher::error_file_message(R"({"message":"x\ny\u001b[2J\u0000"})") == "x y?[2J?");
  CHECK(launcher::error_file_message(std::string(1'000'000, '[')).empty());
  CHECK(launcher::error_file_message(R"({"message":")" + std::string(1'000'000, 'x') + "\"}").size() < 2100);
  CHECK(launcher::error_file_message(R"({"message":{"message":"Value)").empty());  // half of it
  CHECK(launcher::error_file_message("{\"message\":\"\xff\"}").empty());
  CHECK(launcher::error_file_message(R"({"message":"boom","timestamp":1})") == "boom");
  CHECK(launcher::error_file_message("{").empty());
  CHECK(launcher::error_file_message("[1]").empty());
  CHECK(launcher::error_file_message(R"({"message":3})").empty());
}
