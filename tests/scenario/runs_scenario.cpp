// Plays the transcripts in tests/scenario/runs against the table of a coordinator's runs.
#include <string>
#include <vector>

#include "rendezvous/net/run_table.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scenario.hpp"

namespace {

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::Lines;
using cxxrun::test::value;
using cxxrun::test::Words;

std::uint32_t number(Words const& words, std::string const& key, std::string const& otherwise) {
  return static_cast<std::uint32_t>(std::stoul(value(words, key, otherwise)));
}

/// "hello open 12.0", "join enter any": any = "".
Hello hello_of(Words const& words) {
  Hello hello;
  using Asks = Hello::Asks;
  hello.asks = words[1] == "open"     ? Asks::open
               : words[1] == "reopen" ? Asks::reopen
               : words[1] == "enter"  ? Asks::enter
                                      : Asks::meet;
  hello.run_id = words[2] == "any" ? "" : words[2];
  return hello;
}

std::optional<Terms> terms_of(Words const& words) {
  if (hello_of(words).asks == Hello::Asks::enter || value(words, "terms", "") == "none") {
    return std::nullopt;
  }
  Terms terms;
  terms.min_nodes = number(words, "min", "2");
  terms.max_nodes = number(words, "max", "2");
  terms.max_restarts = number(words, "restarts", "3");
  terms.max_restarts_given = value(words, "restarts-given", "no") == "yes";
  terms.restart_delay = Millis{number(words, "restart-delay", "30000")};
  terms.heartbeat_timeout = Millis{number(words, "heartbeat", "5000")};
  terms.tie = value(words, "tie", "rank") == "none" ? Tie::none : Tie::rank;
  terms.scale_out_now = value(words, "scale-out", "now") == "now";
  terms.restart_window = Millis{number(words, "restart-window", "0")};
  terms.hang_timeout = Millis{number(words, "hang-timeout", "0")};
  terms.agent_store = value(words, "store", "on") == "on";
  auto const access = value(words, "access", "user");
  terms.store_access = access == "any"     ? store::StoreAccess::any
                       : access == "hosts" ? store::StoreAccess::hosts
                                           : store::StoreAccess::user;
  terms.master_port = static_cast<std::uint16_t>(number(words, "port", "0"));
  return terms;
}

class Player {
 public:
  Lines operator()(Words const& words) {
    std::string const& verb = words[0];
    if (verb == "table") {
      table_.serves_all = words[1] == "all";
      table_.only_id = value(words, "only", "");
      return {};
    }
    if (verb == "host") {
      return open(words[1], Terms{});
    }
    if (verb == "hello") {
      return std::visit([&](auto const& where) { return show(where, words); }, place(table_, hello_of(words)));
    }
    if (verb == "join") {
      Join joined{{}, terms_of(words)};
      joined.node.coordinates = words.back() == "coordinates";
      Place const where = admit(table_, hello_of(words), joined, "");
      return std::holds_alternative<Opens>(where)
                 ? open(hello_of(words).run_id, *terms_of(words))
                 : std::visit([&](auto const& concrete) { return show(concrete, words); }, where);
    }
    auto const run = static_cast<RunKey>(std::stoul(words[1]));
    if (verb == "reached") {
      note_progress(table_, run, number(words, "generation", "1"), number(words, "restarts", "0"));
      return {};
    }
    REQUIRE(verb == "verdict");
    Verdict verdict;
    verdict.end = words[2] == "success" ? End::success : words[2] == "failed" ? End::worker_failed : End::too_few_nodes;
    verdict.exit_code = verdict.end == End::success ? 0 : verdict.end == End::worker_failed ? 7 : 112;
    verdict.summary = words[2];
    verdict.restarts = find_run(table_, run)->restarts;
    note_verdict(table_, run, verdict);
    return {};
  }

 private:
  Lines open(std::string const& id, Terms const& terms) {
    auto const& entry = open_run(table_, id, terms);
    return {"opens run " + std::to_string(entry.key) + " (" + entry.id + "): generations after " +
            std::to_string(entry.number) + ", restarts " + std::to_string(entry.restarts)};
  }

  Lines show(Belongs const& where, Words const& /*words*/) const {
    return {"belongs to run " + std::to_string(where.run) + " (" + find_run(table_, where.run)->id + ")"};
  }
  static Lines show(Opens const& /*where*/, Words const& words) { return {"would open " + words[2]}; }
  static Lines show(Elsewhere const& where, Words const& /*words*/) { return {"elsewhere: " + where.why}; }
  static Lines show(TurnedAway const& where, Words const& /*words*/) {
    return {"turned away with " + std::to_string(where.exit_code) + ": " + where.why};
  }

  RunTable table_;
};

}  // namespace

TEST_CASE("run table: every transcript plays as written", "[scenario]") {
  auto const paths = cxxrun::test::transcripts("runs");
  REQUIRE_FALSE(paths.empty());
  for (auto const& path : paths) {
    Player player;
    CHECK(cxxrun::test::play(path, [&](Words const& words) { return player(words); }) == "");
  }
}

TEST_CASE("run table: the answer to an agent that is added has the terms of its run, that to any other has none",
          "[scenario]") {
  RunTable table;
  Terms terms;
  terms.max_nodes = 7;
  open_run(table, "12.0", terms);
  Hello hello;
  hello.asks = Hello::Asks::enter;
  CHECK(answer_to(table, hello, "nonce").terms == terms);
  hello.run_id = "12.1";
  CHECK_FALSE(answer_to(table, hello, "nonce").terms);
  hello.run_id = "12.0";
  hello.asks = Hello::Asks::meet;
  CHECK_FALSE(answer_to(table, hello, "nonce").terms);
}

TEST_CASE("run table: a run is known by its step, too, and needs each node of it until it has begun", "[scenario]") {
  RunTable table;
  Terms terms;
  terms.min_nodes = terms.max_nodes = 2;
  terms.expected_nodes = 2;
  RunKey const run = open_run(table, "mine", terms, "", "12.0").key;
  Hello hello;
  hello.run_id = "12.0";
  CHECK(place(table, hello) == Place(Belongs{run}));
  CHECK(answer_to(table, hello, "nonce").run_id == "mine");
  hello.run_id = "13.0";
  CHECK(std::holds_alternative<Elsewhere>(place(table, hello)));
  hello.run_id = "";
  CHECK(std::holds_alternative<Elsewhere>(place(table, hello)));

  hello.run_id = "12.0";
  Join joins;
  joins.node.node_index = 1;
  CHECK(admit(table, hello, joins, "") == Place(Belongs{run}));  // to say that it takes no part
  joins.terms = terms;
  joins.terms->max_restarts = 9;
  auto const away = [&] { return std::get<TurnedAway>(admit(table, hello, joins, "")); };
  CHECK(away().of == run);
  note_progress(table, run, 1, 0);
  CHECK(away().of == 0);
  joins.terms.reset();
  CHECK(away().why == "the job has started without this node");
}

TEST_CASE("run table: a job of one node is another one to everybody but its own agent and who is added", "[scenario]") {
  RunTable table;
  open_run(table, "100", Terms{});
  Hello hello;
  hello.run_id = "100";
  hello.nonce = "other";
  CHECK(answer_to(table, hello, "mine").why == HelloReply::Why::other_job);
  CHECK(answer_to(table, hello, "other").why == HelloReply::Why::accepted);
  hello.asks = Hello::Asks::enter;
  CHECK(answer_to(table, hello, "mine").why == HelloReply::Why::accepted);
}

TEST_CASE("run table: a thousand runs one after another are not all remembered, and no active one is forgotten",
          "[scenario]") {
  RunTable table;
  table.serves_all = true;
  RunKey const first = open_run(table, "first", Terms{}).key;
  for (int i = 0; i < 1000; ++i) {
    RunKey const run = open_run(table, "run" + std::to_string(i), Terms{}).key;
    note_progress(table, run, table.number + 1, 0);
    note_verdict(table, run, Verdict{});
    note_closed(table, run);
  }

  CHECK(table.runs.size() <= 300);
  CHECK(find_run(table, first) != nullptr);
  CHECK(open_run(table, "last", Terms{}).number == 1000);
}

TEST_CASE("run table: agents at one address open so many runs at a time, and those at others are no worse for it",
          "[scenario]") {
  RunTable table;
  table.serves_all = true;
  auto const where = [&table](std::string const& from) {
    Hello hello;
    hello.run_id = "new";
    hello.asks = Hello::Asks::open;
    return admit(table, hello, Join{{}, Terms{}}, from);
  };
  std::vector<RunKey> opened;
  while (where("10.0.0.1") == Place(Opens{})) {
    opened.push_back(open_run(table, "run" + std::to_string(opened.size()), Terms{}, "10.0.0.1").key);
    REQUIRE(opened.size() <= 256);
  }
  CHECK(opened.size() == 256);
  REQUIRE(std::holds_alternative<TurnedAway>(where("10.0.0.1")));
  CHECK(std::get<TurnedAway>(where("10.0.0.1")).why.starts_with("agents at 10.0.0.1 have 256 active runs"));
  CHECK(where("10.0.0.2") == Place(Opens{}));
  note_verdict(table, opened.front(), Verdict{});
  CHECK(where("10.0.0.1") == Place(Opens{}));
}
