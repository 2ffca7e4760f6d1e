#include "launcher/report/report_json.hpp"

#include <ctime>
#include <variant>

#include <nlohmann/json.hpp>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

namespace story = rendezvous::story;
using rendezvous::Failure;
using rendezvous::History;
using rendezvous::PastGeneration;
using rendezvous::Spent;
using rendezvous::Verdict;
using Json = nlohmann::ordered_json;
using SortedJson = nlohmann::json;

constexpr std::size_t kLongestMessage = 2000;  // of an exception

/// With three decimals: times are measured in ms.
double seconds(Millis time) {
  return static_cast<double>(time.count()) / 1000.0;
}

/// "2026-11-23T21:36:12.911Z", of Unix time in ms.
std::string utc_text(std::int64_t wall_ms) {
  std::time_t const whole = static_cast<std::time_t>(wall_ms / 1000);
  std::tm parts{};
  gmtime_r(&whole, &parts);
  char text[32];
  std::size_t const length = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return std::string(text, length) + "." + std::to_string(1000 + wall_ms % 1000).substr(1) + "Z";
}

std::string text_of(Json const& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);  // hosts and workers may send invalid UTF-8
}

Json to_json(PastGeneration const& past) {
  return {
      {"generation", past.number},  {"nodes", past.nodes},   {"ranks", past.ranks}, {"began_s", seconds(past.began)},
      {"ran_s", seconds(past.ran)}, {"failed", past.failed}, {"why", past.why},     {"lost_s", seconds(past.lost)},
  };
}

Json account_json(History const& history) {
  auto const total = history.account.total();
  Json json{{"wall_s", seconds(total)}};
  for (auto const spent : rendezvous::kAllSpent) {
    json[name_of(spent) + std::string("_s")] = seconds(history.account[spent]);
  }
  auto const tenths = total > Millis{0} ? history.account[Spent::training].count() * 1000 / total.count() : 0;
  json["goodput_percent"] = static_cast<double>(tenths) / 10.0;
  json["steps_known"] = history.steps;
  return json;
}

Json past_json(History const& history) {
  Json list = Json::array();
  for (auto const& each : history.past) {
    list.push_back(to_json(each));
  }
  return list;
}

// The fields of each event, "kind" first.

Json fields(story::NodeJoined const& e) {
  return {{"kind", "node_joined"}, {"host", e.host}, {"slots", e.slots}};
}
Json fields(story::NodeLost const& e) {
  return {{"kind", "node_lost"}, {"host", e.host}, {"how", e.how}};
}
Json fields(story::NodeLeft const& e) {
  return {{"kind", "node_left"}, {"host", e.host}, {"signal", e.signal}};
}
Json fields(story::NodeExcluded const& e) {
  return {{"kind", "node_excluded"}, {"host", e.host}, {"why", e.why}};
}
Json fields(story::Formed const& e) {
  return {{"kind", "formed"},
          {"generation", e.generation},
          {"nodes", e.nodes},
          {"ranks", e.ranks},
          {"restarts", e.restarts},
          {"hosts", e.hosts},
          {"local_sizes", e.local_sizes}};
}
Json fields(story::Started const& e) {
  return {{"kind", "started"}, {"generation", e.generation}};
}
Json fields(story::WorkerFailed const& e) {
  return {{"kind", "worker_failed"}, {"generation", e.generation}, {"rank", e.rank}, {"host", e.host}, {"how", e.how}};
}
Json fields(story::Stopping const& e) {
  return {{"kind", "stop"}, {"generation", e.generation}, {"stop", e.kind}, {"why", e.why}};
}
Json fields(story::Ended const& e) {
  Json json{{"kind", "ended"}};
  json.update(to_json(e.what));
  json.erase("lost_s");  // not known yet
  return json;
}
Json fields(story::Restart const& e) {
  return {{"kind", "restart"}, {"restarts", e.restarts}, {"delay_s", seconds(e.delay)}};
}
Json fields(story::TookOver const& e) {
  return {{"kind", "took_over"},
          {"generation", e.generation},
          {"account", account_json(e.known)},
          {"history", past_json(e.known)},
          {"history_left_out", e.known.left_out}};
}
Json fields(story::SteppedDown const& e) {
  return {{"kind", "stepped_down"}, {"why", e.why}};
}
Json fields(story::Concluded const& e) {
  return {{"kind", "verdict"}, {"verdict", e.verdict}, {"exit_code", e.exit_code}, {"summary", e.summary}};
}
Json fields(story::Stretch const& e) {
  return {{"kind", "time"}, {"spent", name_of(e.spent)}, {"from_s", seconds(e.from)}, {"to_s", seconds(e.to)}};
}
Json fields(story::Wanted const& e) {
  return {{"kind", "wanted"}, {"generation", e.generation}, {"verb", e.verb}, {"host", e.host}, {"by", e.by}};
}
Json fields(story::Slow const& e) {
  return {{"kind", "slow"},
          {"over", e.over},
          {"generation", e.generation},
          {"rank", e.rank},
          {"ranks", e.ranks},
          {"host", e.host},
          {"late_s", seconds(e.late)},
          {"percent", e.percent},
          {"source", e.source},
          {"spent", e.spent},
          {"how", e.how}};
}
Json fields(story::Hang const& e) {
  return {{"kind", "hang"}, {"generation", e.generation}, {"how", e.how}};
}

char const* role_name(rendezvous::Role role) {
  switch (role) {
    case rendezvous::Role::culprit: return "culprit";
    case rendezvous::Role::waited: return "waited";
    case rendezvous::Role::lost_peer: return "lost_peer";
    case rendezvous::Role::told_to_end: return "told_to_end";
  }
  return "culprit";
}

SortedJson to_json(Failure const& failure) {
  return SortedJson{{"host", failure.host},
                    {"group_rank", failure.group_rank},
                    {"rank", failure.exit.rank},
                    {"local_rank", failure.exit.local_rank},
                    {"pid", failure.exit.pid},
                    {"how", failure.exit.status.describe()},
                    {"hung", failure.exit.hung},
                    {"cause", failure.exit.cause},
                    {"advice", failure.exit.advice},
                    {"told", failure.exit.told},
                    {"role", role_name(failure.exit.role)},
                    {"exception", failure.exit.error_file},
                    {"log", failure.exit.log},
                    {"exit_code", failure.exit.status.shell_code()},
                    {"time_ms", failure.exit.wall_ms},
                    {"stderr", failure.exit.stderr_tail}};
}

}  // namespace

std::string events_header(std::string const& run_id, std::string const& host, std::int64_t wall_ms) {
  return text_of(Json{{"version", kStoryVersion}, {"time", utc_text(wall_ms)}, {"run_id", run_id}, {"host", host}});
}

std::string event_line(story::Event const& event, std::int64_t wall_ms) {
  Json json{{"time", utc_text(wall_ms)}, {"at_s", seconds(event.at)}};
  json.update(std::visit([](auto const& what) { return fields(what); }, event.what));
  return text_of(json);
}

std::string verdict_json(Verdict const& verdict) {
  auto const& history = verdict.history;
  // By way of text: verdict.json sorts its keys, and these parts are ordered.
  SortedJson json = SortedJson::parse(text_of(Json{
      {"account", account_json(history)}, {"history", past_json(history)}, {"history_left_out", history.left_out}}));
  json.update({{"version", kStoryVersion},
               {"verdict", name_of(verdict.end)},
               {"exit_code", verdict.exit_code},
               {"summary", verdict.summary},
               {"generation", verdict.generation},
               {"restarts", verdict.restarts},
               {"max_restarts", verdict.max_restarts},
               {"lost_nodes", verdict.lost_nodes},
               {"failures", SortedJson::array()},
               {"left_before", SortedJson::array()},
               {"excluded", verdict.excluded},
               {"followed", verdict.followed},
               {"stopped", verdict.stopped}});
  for (auto const& failure : verdict.failures) {
    json["failures"].push_back(to_json(failure));
  }
  for (auto const& each : verdict.left) {
    json["left_before"].push_back({{"host", each.host}, {"rank", each.rank}, {"time_ms", each.wall_ms}});
  }
  json["killed"] = SortedJson::array();
  for (auto const& each : verdict.killed) {
    json["killed"].push_back(
        {{"host", each.host}, {"rank", each.exit.rank}, {"pid", each.exit.pid}, {"cause", each.exit.cause}});
  }
  json["node_faults"] = SortedJson::array();
  for (auto const& fault : verdict.node_faults) {
    json["node_faults"].push_back({{"host", fault.host}, {"what", fault.what}});
  }
  return json.dump(2, ' ', false, SortedJson::error_handler_t::replace) + "\n";
}

std::string error_file_message(std::string const& text) {
  SortedJson const json = SortedJson::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("message")) {
    return {};
  }
  SortedJson const* message = &json.at("message");
  if (message->is_object() && message->contains("message")) {
    message = &message->at("message");
  }
  if (!message->is_string()) {
    return {};
  }
  std::string line = message->get<std::string>();
  std::ranges::replace(line, '\n', ' ');
  return printable(line, kLongestMessage);
}

std::string error_file_for_caller(std::string const& text, ExitStatus const& status) {
  constexpr int kDeepest = 100;  // dump() calls itself for each level
  bool too_deep = false;
  auto const look = [&too_deep](int depth, SortedJson::parse_event_t /*event*/, SortedJson const& /*value*/) {
    too_deep = too_deep || depth > kDeepest;
    return true;
  };
  SortedJson json = SortedJson::parse(text, look, false);
  if (too_deep || !json.is_object() || !json.contains("message") || !json.at("message").is_object()) {
    return text;
  }
  json["message"]["errorCode"] = status.kind == ExitStatus::Kind::signalled ? -status.value : status.value;
  return json.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
}

}  // namespace cxxrun::launcher
