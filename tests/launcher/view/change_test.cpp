#include "launcher/view/change.hpp"

#include "launcher/live/answers.hpp"
#include "tests/launcher/view/table_of.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;                  // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::view;  // NOLINT(google-build-using-namespace)

namespace {

Table running() {
  Table table;
  table.run_id = "4711.0";
  table.phase = "starting";
  table.generation = 2;
  table.nodes = 8;
  table.ranks = 64;
  table.members = table_of(3, 2).members;
  table.members[2].workers.clear();
  return table;
}

CtlOptions typed(Verb verb, std::string node = "") {
  CtlOptions options;
  options.verb = verb;
  options.node = std::move(node);
  return options;
}

}  // namespace

TEST_CASE("change: a person is shown how the job is and what follows, and is asked of this generation") {
  auto const table = running();
  CHECK(what_follows(table, typed(Verb::restart)) ==
        "4711.0 starts 64 ranks on 8 nodes for 0.0 s\n"
        "64 ranks on 8 nodes: all are stopped, and have --shutdown-timeout to save; what they do not save is lost.\n"
        "They start again as the next generation; no restart is used up.\n");
  CHECK(what_follows(table, typed(Verb::stop)).ends_with("exit code 130, and is not queued again.\n"));
  CHECK(what_follows(table, typed(Verb::checkpoint)).ends_with("No worker is stopped.\n"));
  auto saved = table;
  saved.checkpoint_age = Millis{724'000};
  CHECK(what_follows(saved, typed(Verb::restart))
            .find("\nlast checkpoint 0:12:04 h ago: that much is done again unless they save.\nThey start again ") !=
        std::string::npos);
  CHECK(what_follows(saved, typed(Verb::stop)).find("ago: that much is lost unless they save.\n") != std::string::npos);
  CHECK(what_follows(saved, typed(Verb::checkpoint)).find("\nlast checkpoint 0:12:04 h ago\n64 ranks") !=
        std::string::npos);
  CHECK(question_of(table, typed(Verb::stop)) == "stop generation 2 of 4711.0? [y/N] ");
}

TEST_CASE("change: of a node that is to be drained its ranks are shown, and how many nodes are left") {
  auto table = running();
  std::string const end = " the others go on as 7 nodes, or with a spare in its place. No restart is used up.\n";
  for (std::string const name : {"node1", "node1.cluster"}) {
    CHECK(
        what_follows(table, typed(Verb::drain, name)) ==
        "4711.0 starts 64 ranks on 8 nodes for 0.0 s\n"
        "64 ranks on 8 nodes: all are stopped, and have --shutdown-timeout to save; what they do not save is lost.\n" +
            name + " with ranks 2-3 leaves for good;" + end);
  }
  for (std::string const name : {"node2", "node9"}) {
    CHECK(what_follows(table, typed(Verb::drain, name))
              .ends_with("\n" + name + ", of which no worker is known, leaves for good;" + end));
  }
  table.members[2] = table_of(3, 2).members[2];  // another agent there
  table.members[2].host = "node1";
  CHECK(what_follows(table, typed(Verb::drain, "node1"))
            .find("node1 with ranks 2-5 leaves for good; the others go on as 6 nodes") != std::string::npos);
  CHECK(question_of(table, typed(Verb::drain, "node2")) == "drain node2 of generation 2 of 4711.0? [y/N] ");
}

TEST_CASE("change: the coordinator is told what to do, and to which generation") {
  auto const table = running();
  CHECK(question_text(order_of(table, typed(Verb::checkpoint))) == "checkpoint 2");
  CHECK(question_text(order_of(table, typed(Verb::restart))) == "restart 2");
  CHECK(question_text(order_of(table, typed(Verb::drain, "node2"))) == "drain node2 2");
  CHECK(question_text(order_of(table, typed(Verb::stop))) == "stop 2");
}

TEST_CASE("change: what was done is one line, and nothing done is told as such") {
  auto const done = outcome_of(read_change(live::done_json("restarted by uid 7 on node1")));
  CHECK(done.done);
  CHECK(done.line == "restarted by uid 7 on node1");
  auto const some = outcome_of(read_change(live::asked_json("node1", 2, 2) + "\n" + live::asked_json("node2", 1, 2)));
  CHECK(some.done);
  CHECK(some.line == "asked 3 of 4 workers to save");
  auto const none = outcome_of(read_change(live::asked_json("node1", 0, 2)));
  CHECK_FALSE(none.done);
  CHECK(none.line.starts_with("none of 2 workers can be asked"));
  auto const refused = read_change(live::error_json("generation 3 runs now"));
  CHECK_FALSE(outcome_of(refused).done);
  CHECK(refused.errors == std::vector<std::string>{"generation 3 runs now"});
}
