// docs/use/exit_codes.md: every end has its name, its code and a time within which every agent has exited.
#include <functional>
#include <map>
#include <set>

#include "launcher/agent/agent_config.hpp"
#include "rendezvous/history/restarts.hpp"
#include "rendezvous/membership/membership.hpp"
#include "src/base/core/text.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace): the unit under test
using namespace std::chrono_literals;
using Cells = std::vector<std::string>;

namespace {

std::vector<Cells> rows_under(std::string const& heading) {
  std::vector<Cells> rows;
  bool inside = false;
  for (auto const& line :
       split(cxxrun::testing::read_file(std::string(CXXRUN_SOURCE_DIR) + "/docs/use/exit_codes.md"), '\n')) {
    inside = line.starts_with("## ") ? line == heading : inside;
    if (inside && line.starts_with("| ") && !line.starts_with("| end |")) {
      Cells cells;
      for (auto const& cell : split(line.substr(1, line.size() - 2), '|')) {
        cells.emplace_back(trim(cell));
      }
      rows.push_back(cells);
    }
  }
  return rows;
}

/// "max(S, R) + K + 15 s", "8 T + K + 5 s".
Millis evaluate(std::string const& formula, launcher::Options const& options) {
  std::map<std::string, Millis> const named = {
      {"max(S, R)", std::max(options.shutdown_timeout, options.restart_timeout)},
      {"K", options.kill_timeout},
      {"J", options.terms.join_timeout},
      {"T", options.terms.heartbeat_timeout},
      {"s", 1000ms}};
  Millis sum{0};
  for (auto const& term : split(replace_all(formula, " + ", "+"), '+')) {
    bool const counted = term[0] >= '0' && term[0] <= '9';
    auto const blank = term.find(' ');
    sum += counted ? std::stoi(term) * named.at(term.substr(blank + 1)) : named.at(term);
  }
  return sum;
}

/// A job of two nodes whose members answer at the last moment, and never leave by themselves.
struct LateJob {
  Policy policy;
  State state;
  TimePoint now{};
  std::optional<TimePoint> timer;
  bool closed = false;

  explicit LateJob(launcher::Options const& options) {
    launcher::AgentConfig config;
    config.options = options;
    config.topology.min_nodes = config.topology.max_nodes = 2;
    static_cast<Terms&>(policy) = launcher::terms_of(config);
    policy.heartbeat_timeout = Millis{0};  // no beats are played
    feed(Opened{});
  }
  void feed(Event const& event) {
    Step result = step(std::move(state), event, now, policy);
    state = std::move(result.next);
    for (auto const& action : result.actions) {
      if (auto const* armed = std::get_if<ArmTimer>(&action)) {
        timer = armed->at;
      }
      closed = closed || std::holds_alternative<Close>(action);
    }
  }
  void prepare() {
    for (AgentId agent = 1; agent <= 2; ++agent) {
      NodeInfo node;
      node.host = "n" + std::to_string(agent);
      node.coordinates = agent == 1;
      feed(Joined{agent, node});
    }
  }
  void run() {
    prepare();
    feed(StoreOpened{1, 1, 1});
    feed(Said{1, Ack{1}});
    feed(Said{2, Ack{1}});
  }
  void answer_at_the_last_moment(WorkerExit const& exit, std::vector<std::string> const& unkillable = {}) {
    REQUIRE(timer);
    now = *timer - 1ms;
    feed(Said{1, Stopped{1, {}, {}}});
    feed(Said{2, Stopped{1, {exit}, unkillable}});
  }
  Millis wait() {
    for (int i = 0; i < 10 && !closed; ++i) {
      REQUIRE(timer);
      now = std::max(now, *timer);
      feed(Tick{});
    }
    REQUIRE(closed);
    return std::chrono::duration_cast<Millis>(now - TimePoint{});
  }
};

WorkerExit ended(ExitStatus status) {
  WorkerExit exit;
  exit.rank = 1;
  exit.status = status;
  return exit;
}

/// By "END of MOMENT", the cells of a row: plays that end with answers as late as they may be.
std::map<std::string, std::function<void(LateJob&)>> plays() {
  auto const fails = [](ExitStatus status) {
    return [status](LateJob& job) {
      job.run();
      job.feed(Said{2, WorkerFailed{1, ended(status)}});
      job.answer_at_the_last_moment(ended(status));
    };
  };
  return {{"success of the last worker's end",
           [](LateJob& job) {
             job.run();
             job.feed(Said{1, Succeeded{1}});
             job.feed(Said{2, Succeeded{1}});
           }},
          {"worker failed of its end, with no restart left", fails(ExitStatus::exited(3))},
          {"failed the same way three times of its end, the third in a row of the same look",
           [fails](LateJob& job) {
             auto const alike = ended(ExitStatus::exited(3));
             job.state.restarts.streak = after_failure(after_failure({}, false, alike), false, alike);
             fails(alike.status)(job);
           }},
          {"worker could not be started of the failed start",
           [](LateJob& job) {
             job.run();
             job.feed(Said{2, WorkerFailed{1, ended(ExitStatus::not_started(2))}});
             job.answer_at_the_last_moment(ended(ExitStatus::not_started(2)));
           }},
          {"too few nodes of the loss of a node (noticed at once, or after T; a node that is not proven dead has 0.4 T "
           "to come "
           "back)",
           [](LateJob& job) {
             job.run();
             job.feed(Lost{2, "reset"});
           }},
          {"too few nodes of the start, when MIN do not come", [](LateJob&) {}},
          {"stopped of the signal",
           [](LateJob& job) {
             job.run();
             job.feed(Said{1, Leaving{15}});
             job.answer_at_the_last_moment(ended(ExitStatus::signalled(15)));
           }},
          {"unkillable worker of the failure or the signal",
           [](LateJob& job) {
             job.run();
             job.feed(Said{2, WorkerFailed{1, ended(ExitStatus::exited(3))}});
             job.answer_at_the_last_moment(ended(ExitStatus::exited(3)), {"pid 7"});
           }},
          {"system failure of the refusal", [](LateJob& job) {
             job.prepare();
             job.feed(StoreFailed{1, "port taken"});
           }}};
}

}  // namespace

TEST_CASE("ends: every end that membership gives comes within the time in docs/use/exit_codes.md", "[unit]") {
  launcher::Options options;
  options.terms.max_restarts = 1;
  auto const all = plays();
  std::size_t played = 0;
  for (auto const& row : rows_under("## How a job ends, and how long that takes")) {
    REQUIRE(row.size() == 4);
    auto const play = all.find(row[0] + " of " + row[2]);
    CAPTURE(row[0], row[2], row[3]);
    if (row[0] == name_of(End::partitioned)) {
      CHECK(row[1] == std::to_string(kExitPartitioned));
      CHECK(evaluate(row[3], options) == 8 * options.terms.heartbeat_timeout + options.kill_timeout + 5s);
      continue;
    }
    REQUIRE(play != all.end());
    options.terms.max_restarts = row[0] == name_of(End::unkillable) ? 1 : 0;
    LateJob job(options);
    play->second(job);
    CHECK(job.wait() <= evaluate(row[3], options));
    CHECK(name_of(job.state.verdict->end) == row[0]);
    int const code = job.state.verdict->exit_code;
    bool const of_a_worker = row[1].find("128 + N") != std::string::npos;
    CHECK((of_a_worker ? code == 3 || code == 128 + 15 : row[1].starts_with(std::to_string(code))));
    ++played;
  }
  CHECK(played == all.size());
}

TEST_CASE("ends: docs/use/exit_codes.md has every end by name", "[unit]") {
  std::set<std::string> named;
  for (auto const& row : rows_under("## How a job ends, and how long that takes")) {
    named.insert(row[0]);
  }
  std::set<std::string> all;
  for (int i = 0; std::string(name_of(static_cast<End>(i))) != "unknown"; ++i) {
    all.insert(name_of(static_cast<End>(i)));
  }
  CHECK(named == all);
}

TEST_CASE("ends: what cxxrun ends with", "[unit]") {
  using launcher::exit_code;
  launcher::agent::Exit const left{7, ""};
  CHECK(exit_code(std::nullopt, left, std::nullopt) == 7);
  CHECK(exit_code(std::nullopt, left, kExitNoProgress) == kExitNoProgress);
  CHECK(exit_code(std::nullopt, std::nullopt, std::nullopt) == kExitSystem);
  std::map<Errc, int> const failures = {
      {Errc::usage, kExitUsage},         {Errc::not_found, kExitUsage},        {Errc::refused, kExitUsage},
      {Errc::timeout, kExitTooFewNodes}, {Errc::closed, kExitCoordinatorLost}, {Errc::io, kExitSystem},
      {Errc::in_use, kExitSystem}};
  for (auto const& [why, code] : failures) {
    CHECK(exit_code(fail(why, "it did not work"), std::nullopt, std::nullopt) == code);
    CHECK(exit_code(fail(why, "it did not work"), left, std::nullopt) == code);
  }
}
