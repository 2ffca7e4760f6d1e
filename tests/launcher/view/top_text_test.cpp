#include "launcher/view/top_text.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;                  // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::view;  // NOLINT(google-build-using-namespace)
using Keys = std::vector<Key>;

namespace {

/// So many nodes of two workers each; the later ones are further behind, and use more memory.
Table table_of(std::uint32_t nodes) {
  Table table;
  table.run_id = "4711.0";
  table.phase = "running";
  table.coordinator = "node0";
  table.generation = 2;
  table.nodes = nodes;
  table.ranks = std::uint64_t{2} * nodes;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    Node node{"node" + std::to_string(i), 2, Millis{0}, {}};
    for (std::uint32_t k = 0; k < 2; ++k) {
      Worker worker;
      worker.rank = 2 * i + k;
      worker.step = 1000 - i;
      worker.step_ago = Millis{300};
      worker.per_step = Millis{1910};
      worker.memory_mib = 100 + i;
      worker.state = 'R';
      node.workers.push_back(worker);
    }
    table.members.push_back(std::move(node));
  }
  return table;
}

/// What is shown after these keys.
struct Viewer {
  Table table;
  TopChoice choice;
  std::vector<Tail> tails;

  void press(Keys const& keys) {
    for (auto const key : keys) {
      choice = choose(choice, key, table);
    }
  }
  std::vector<std::string> screen(std::string const& note = "") const {
    std::vector<std::string> texts;
    for (auto const& line : top_lines(table, choice, tails, note)) {
      texts.push_back(line.text);
    }
    return texts;
  }
  /// The row with the mark.
  std::string chosen() const {
    for (auto const& line : screen()) {
      if (line.starts_with(">")) {
        return line.substr(1, line.find(' ') - 1);
      }
    }
    return "none";
  }
};

}  // namespace

TEST_CASE("top: keys are known by the bytes that a terminal sends, however they come") {
  std::string bytes = "\x1b[A\x1b[Bs\x1b[5~\x1bOBlq";
  CHECK(take_keys(bytes) == Keys{Key::up, Key::down, Key::sort, Key::page_up, Key::down, Key::log, Key::quit});
  bytes = "\x1b[";
  CHECK(take_keys(bytes).empty());
  bytes += "6";
  CHECK(take_keys(bytes).empty());
  bytes += "~x\x1b[1;5Cs\x1b[200~";
  CHECK(take_keys(bytes) == Keys{Key::page_down, Key::sort});
  CHECK(bytes.empty());
}

TEST_CASE("top: the screen is the status, the nodes, what has happened, and the keys") {
  Viewer viewer{table_of(2), {}, {}};
  viewer.table.events = {{Millis{0}, "formed"}, {Millis{0}, "started"}};
  viewer.press({Key::other});
  auto const lines = viewer.screen();
  REQUIRE(lines.size() == 24);
  CHECK(lines[0] == "4711.0 trains: step 1000, 1.91 s a step");
  CHECK(lines[3].starts_with(" node            RANKS "));
  CHECK(lines[3].ends_with(" CPU S"));
  CHECK(lines[4].starts_with(">node0           0-1             1000    1.91 s"));
  CHECK(lines[5].starts_with(" node1           2-3              999    1.91 s"));
  CHECK(lines[6].empty());
  CHECK(lines[22] == "0.0 s ago  started");
  CHECK(lines[23] == "q quits, arrows and page keys choose, s sorts (ranks), l log");
  CHECK(viewer.screen("no answer for 3.0 s").back() == "no answer for 3.0 s");
}

TEST_CASE("top: arrows and page keys choose a node, and the rows scroll to it") {
  Viewer viewer{table_of(100), {}, {}};
  viewer.press({Key::other});
  CHECK(viewer.chosen() == "node0");
  viewer.press({Key::up});
  CHECK(viewer.chosen() == "node0");
  viewer.press({Key::down, Key::down});
  CHECK(viewer.chosen() == "node2");
  viewer.press({Key::page_down});
  CHECK(viewer.chosen() == "node21");  // of 19 rows
  viewer.press(Keys(10, Key::page_down));
  CHECK(viewer.chosen() == "node99");
  CHECK(viewer.choice.first == 81);
  CHECK(viewer.screen().back().starts_with("100 nodes; "));
  viewer.press({Key::up});
  CHECK(viewer.choice.first == 81);
  viewer.press(Keys(10, Key::page_up));
  CHECK(viewer.chosen() == "node0");
}

TEST_CASE("top: the chosen node stays chosen when the rows are sorted anew, and another one when it is lost") {
  Viewer viewer{table_of(100), {}, {}};
  viewer.press({Key::down, Key::sort});
  CHECK(viewer.choice.sort == Column::step);
  CHECK(viewer.chosen() == "node1");
  CHECK(viewer.choice.row == 98);
  CHECK(viewer.screen()[3].find(" STEP ") != std::string::npos);
  viewer.choice.first = 0;
  viewer.choice.rank = 0;
  viewer.press(Keys(7, Key::sort));
  CHECK(viewer.choice.sort == Column::step);  // all around
  viewer.table.members.erase(viewer.table.members.begin());
  viewer.press({Key::other});
  CHECK(viewer.chosen() != "none");
  viewer.table.members.clear();
  viewer.press({Key::down, Key::page_up, Key::sort, Key::log});
  CHECK(viewer.chosen() == "none");
}

TEST_CASE("top: the log of the chosen node's first rank takes half of the screen") {
  Viewer viewer{table_of(100), {}, {}};
  viewer.tails = {{0, "node0", "/logs/stdout.log", "one\ntwo\x1b[2J\xc3\xa4\n"},
                  {0, "node0", "/logs/stderr.log", "e\n"}};
  viewer.press({Key::log});
  auto const lines = viewer.screen();
  REQUIRE(lines.size() == 24);
  CHECK(lines[14] == "rank 0 on node0: /logs/stdout.log");
  CHECK(lines[15] == "one");
  CHECK(lines[16].starts_with("two"));
  CHECK(lines[17] == "rank 0 on node0: /logs/stderr.log");
  viewer.press({Key::log});
  CHECK(viewer.screen()[14].find("stdout.log") == std::string::npos);
}

TEST_CASE("top: whatever the job and the terminal are, a screen is ASCII and not larger") {
  Viewer viewer{table_of(40), {}, {}};
  viewer.table.run_id = std::string(300, 'r') + "\x1b\xc3\xa4";
  viewer.table.members[1].host = "a-very-long-host-name-\xc3\xa4\x1b[31m";
  viewer.table.members[2].workers[0].state = '\xff';
  viewer.table.events.assign(20, {Millis{0}, std::string(300, 'e') + "\n\x1b"});
  viewer.tails = {{0, "\xc3\xa4", "/x", std::string(5000, 'x') + "\x1b[2J\n"}};
  for (std::size_t const rows : {1U, 2U, 5U, 6U, 7U, 8U, 24U, 200U}) {
    for (std::size_t const columns : {1U, 20U, 80U, 300U}) {
      for (bool const log : {false, true}) {
        viewer.choice = {};
        viewer.choice.lines = rows;
        viewer.choice.columns = columns;
        viewer.choice.log = log;
        viewer.press({Key::page_down, Key::down});
        auto const lines = viewer.screen(log ? "\x1b" : "");
        CHECK(lines.size() <= rows);
        for (auto const& line : lines) {
          CHECK(line.size() <= columns);
          CHECK(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; }));
        }
      }
    }
  }
}

TEST_CASE("top: only the sentence and what is wrong have a colour, and without one there is none") {
  std::vector<TopLine> const lines{{"bad", TopLine::Style::alarm}, {"row"}};
  CHECK(draw(lines, true) == "\x1b[H\x1b[K\x1b[1;31mbad\x1b[m\r\n\x1b[Krow");
  CHECK(draw(lines, false) == "\x1b[H\x1b[Kbad\r\n\x1b[Krow");
}
