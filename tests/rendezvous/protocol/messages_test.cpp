#include "rendezvous/protocol/messages.hpp"

#include <limits>
#include <set>
#include <sstream>
#include <variant>

#include "src/base/core/text.hpp"
#include "src/base/wire/frame.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/fixtures.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

WorkerExit some_exit() {
  WorkerExit exit;
  exit.rank = 7;
  exit.local_rank = 3;
  exit.pid = 4711;
  exit.status = ExitStatus::signalled(11);
  exit.status.core_dumped = true;
  exit.wall_ms = 1'700'000'000'123;
  exit.cause = "killed by the kernel";
  exit.advice = "raise --mem";
  exit.of_job = true;
  exit.stderr_tail = "last words\n";
  exit.error_file = "ValueError: x";
  exit.told = "RuntimeError: Connection closed by peer [10.0.0.2]:4711";
  exit.role = Role::lost_peer;
  exit.log = "/logs/run_node3/attempt_2/3/stderr.log";
  return exit;
}

/// The most history that a decree holds.
History some_history() {
  History history;
  history.account.spent = {Millis{1}, Millis{2}, kForever, Millis{3}, Millis{4}, Millis{5}};
  PastGeneration const past{~0ULL,    kMaxNodes, kMaxNodes * kMaxWorkers,       true, kForever,
                            kForever, kForever,  std::string(kWhyOfDecree, 'w')};
  history.past.assign(kPastOfDecree, past);
  history.left_out = 7;
  history.ranks = 16;
  history.steps = true;
  return history;
}

std::vector<ToCoordinator> all_to_coordinator() {
  NodeInfo node;
  node.node_index = 3;
  node.incarnation = "abc";
  node.host = "node3";
  node.slots = 8;
  node.role = "trainer";
  node.coordinates = true;
  node.announce = "10.0.0.3";
  WorkerExit brief = some_exit();
  brief.stderr_tail.clear();
  brief.error_file.clear();
  Terms terms;
  terms.min_nodes = 2;
  terms.max_nodes = 4;
  terms.max_restarts_given = true;
  terms.restart_delay = Millis{5'000};
  terms.expected_nodes = 3;
  terms.ack_timeout = Millis{90'000};
  terms.heartbeat_timeout = Millis{0};
  terms.agent_store = false;
  terms.master_port = 29500;
  terms.tie = Tie::fence;
  terms.scale_out_now = false;
  terms.restart_window = Millis{3'600'000};
  terms.hang_timeout = Millis{120'000};
  terms.store_access = store::StoreAccess::hosts;
  Decree decree{8, 9, 2, 1, 3, 0x9f3a, Tie::none, {2, 1, 0x0123456789abcdef}};
  decree.history = some_history();
  decree.faults = {{"node3", "rank 12: signal 7 (SIGBUS)", ~0ULL, "#3"}};
  return {Join{node, terms},
          FollowerInfo{node,
                       decree,
                       1,
                       10,
                       0,
                       99,
                       11,
                       true,
                       Millis{70},
                       {Millis{60}, Millis{5}, {}},
                       {{0, Millis{3}}, {2, Millis{0}}}},
          FollowerInfo{node, decree, {}, 0, {}, 0, 9, false},
          Vote{8, {2, 1}, {2, 1}, AcceptedDecree{{1, 0}, decree}, Millis{450}},
          Vote{8, {2, 1}, {3, 0}, {}, Millis{0}},
          Accepted{8, {2, 1}, {2, 1}},
          Gone{8, 1},
          Join{node, {}},
          Join{node, terms, TimeLeft{Millis{599'999}, true}},
          Ack{1, 2, 3},
          WorkerFailed{2, brief},
          Succeeded{3, {Millis{9'000}, Millis{20}, Millis{450}}},
          Succeeded{3},
          Stopped{4, {some_exit()}, {"pid 7 (dd)"}, {std::nullopt, Millis{0}}},
          Stopped{4, {some_exit()}, {}, {}, true},
          Complete{4},
          Leaving{15},
          Leaving{15, "from pid 7 (kill), uid 0"},
          Unfit{5, "health check: exit code 3"},
          Progress{5, {{3, 812, 811, 0x1020304, 25, Millis{15'000}, false}, {4, 811, 811, 0, 0, Millis{0}, true}}},
          Progress{5, {{3, 8, 7, 0, 25, Millis{15'000}, false, true, {{77, 8, 2}, {78, 1ULL << 60U, 4}}}}},
          Progress{5, {}},
          Progress{5, {}, {}, {0, 7}},
          Progress{5, {}, {{3, {1, PeerFailure::Why::timeout}}, {4, {1, PeerFailure::Why::left}}}}};
}

TcpEnds some_ends() {
  return {*parse_end("10.1.2.3:40112"), *parse_end("[fd00::1]:29500")};
}

std::vector<AboutCallers> all_about_callers() {
  using Kind = store::Owner::Kind;
  return {
      HostAddresses{{"10.1.2.3", "fd00::3"}},
      Owners{9,
             {{1, {Kind::ours, 0, ""}}, {2, {Kind::other, 65534, ""}}, {3, {Kind::unknown, 0, "no table"}}, {4, {}}}},
      Owners{9, {}}};
}

/// The second of four nodes with eight workers each.
Generation some_generation() {
  Generation g;
  g.number = 9;
  g.restarts = 2;
  g.max_restarts = 3;
  g.group_rank = 1;
  g.group_size = 4;
  g.rank_base = 8;
  g.local_size = 8;
  g.world_size = 32;
  g.role_base = 8;
  g.role_size = 32;
  g.master_addr = "10.0.0.1";
  g.master_port = 29500;
  g.store_port = 29501;
  g.successors = {{0, "node0", "10.0.0.1", 40'000}, {1, "node1", "fd00::1", 40'001}};
  g.decree = {8, 9, 2, 1, 3, 0x9f3a, Tie::fence};
  g.coordinator = "3c";
  g.survives = true;
  g.hosts = "node[0-3]";
  g.local_sizes = "8(x4)";
  return g;
}

std::vector<ToAgent> all_to_agent() {
  Generation const g = some_generation();
  return {Prepare{g, 77},
          Prepare{g, 77, TimeLeft{Millis{0}, false}},
          Start{9, -5, Millis{3999}},
          Stop{9, StopKind::resize, "a node came"},
          Finished{137, "line"},
          Finished{1, "", 8},
          Refused{100, "why"},
          VoteRequest{8, {2, 1}},
          Propose{{2, 1}, g.decree},
          Decided{g.decree, g.successors},
          Decided{g.decree, {}, false},
          Dropped{10, "silent for 5 s"},
          Kill{9, 3, 811, "did not enter all_reduce #812"},
          Kill{9, 3, 0, "left while 3 others still called", PeerFailure::Why::left},
          LeftOut{9}};
}

}  // namespace

TEST_CASE("messages: every message survives its text", "[unit]") {
  for (auto const& message : all_to_coordinator()) {
    auto const back = decode<ToCoordinator>(encode(message));
    REQUIRE(back);
    CHECK(*back == message);
  }
  for (auto const& message : all_to_agent()) {
    auto const back = decode<ToAgent>(encode(message));
    REQUIRE(back);
    CHECK(*back == message);
  }
}

TEST_CASE("messages: what passes beside membership survives its text, and is told from the rest", "[unit]") {
  for (auto const& message : all_about_callers()) {
    CHECK(decode<AboutCallers>(encode(message)).value() == message);
    CHECK(decode<FromAgent>(encode(message)).value() == FromAgent(message));
  }
  AskHost const asked = WhoseCalls{9, {{1, some_ends()}, {2, {some_ends().called, some_ends().caller}}}};
  CHECK(decode<AskHost>(encode(asked)).value() == asked);
  CHECK(decode<FromCoordinator>(encode(asked)).value() == FromCoordinator(asked));
  for (auto const& message : all_to_coordinator()) {
    CHECK(decode<FromAgent>(encode(message)).value() == FromAgent(message));
  }
  for (auto const& message : all_to_agent()) {
    CHECK(decode<FromCoordinator>(encode(message)).value() == FromCoordinator(message));
  }
  CHECK_FALSE(decode<FromCoordinator>(
      R"({"calls":[{"from":"node1:7","id":1,"to":"10.0.0.1:7"}],"generation":1,"type":"whose_calls"})"));
  CHECK_FALSE(decode<FromAgent>(encode(asked)));
}

TEST_CASE("messages: what the live view says survives its text, and is told from the rest", "[unit]") {
  for (LiveUp const& message : {LiveUp(NodePulse{3, 8, 2, {1, -1, 3, std::numeric_limits<std::int64_t>::max()}}),
                                LiveUp(NodePulse{3, 8, 1, {1}, {Millis{9}, Millis{1}, Millis{2}}, Millis{5}}),
                                LiveUp(NodePulse{}), LiveUp(Ask{7, "status"}), LiveUp(Told{7, "{\"a\":1}\n", true})}) {
    CHECK(decode<LiveUp>(encode(message)).value() == message);
    CHECK(decode<FromAgent>(encode(message)).value() == FromAgent(message));
    CHECK_FALSE(decode<ToCoordinator>(encode(message)));
  }
  for (LiveDown const& message :
       {LiveDown(Pace{Millis{1000}, true}), LiveDown(Ask{1, "stacks all"}), LiveDown(Told{2, "", false})}) {
    CHECK(decode<LiveDown>(encode(message)).value() == message);
    CHECK(decode<FromCoordinator>(encode(message)).value() == FromCoordinator(message));
    CHECK_FALSE(decode<ToAgent>(encode(message)));
  }
  CHECK(encode(LiveUp(NodePulse{3, 8, 2, {1, 2}})) ==
        R"({"figures":[1,2],"generation":3,"rank_base":8,"type":"pulse","width":2})");
  CHECK(encode(LiveUp(NodePulse{3, 8, 1, {1}, {Millis{9}, Millis{1}, {}}, Millis{5}})) ==
        R"({"figures":[1],"first_step_ms":9,"generation":3,"last_ms":1,"rank_base":8,"saved_ms":5,"type":"pulse",)"
        R"("width":1})");
}

TEST_CASE("messages: of the live view nothing is longer than a frame, or no number", "[unit]") {
  CHECK_FALSE(decode<LiveUp>(R"({"figures":[1.5],"generation":3,"rank_base":8,"type":"pulse","width":2})"));
  CHECK_FALSE(decode<LiveUp>(R"({"figures":[1],"generation":3,"rank_base":8,"type":"pulse","width":0})"));
  CHECK_FALSE(decode<LiveDown>(R"({"every_ms":-1,"type":"pace"})"));
  CHECK_FALSE(decode<LiveUp>(encode(LiveUp(Ask{1, std::string(kMaxAsk + 1, 'x')}))));
  CHECK_FALSE(decode<LiveUp>(encode(LiveUp(Told{1, std::string(kMaxTold + 1, 'x'), false}))));
  CHECK(encode(LiveUp(Told{1, std::string(kMaxTold, '\x1b'), false})).size() < wire::kMaxFrame);
}

TEST_CASE("messages: no message is missing above", "[unit]") {
  std::set<std::size_t> seen;
  for (auto const& message : all_to_coordinator()) {
    seen.insert(message.index());
  }
  CHECK(seen.size() == std::variant_size_v<ToCoordinator>);
  seen.clear();
  for (auto const& message : all_to_agent()) {
    seen.insert(message.index());
  }
  CHECK(seen.size() == std::variant_size_v<ToAgent>);
}

TEST_CASE("messages: every value of an enumeration survives", "[unit]") {
  auto const survives = [](ToAgent const& message) { return decode<ToAgent>(encode(message)).value() == message; };
  for (StopKind const kind : {StopKind::failure, StopKind::resize, StopKind::user, StopKind::drain}) {
    CHECK(survives(Stop{1, kind, ""}));
  }
  for (Tie const tie : {Tie::rank, Tie::fence, Tie::none}) {
    CHECK(survives(Propose{{1, 0}, {1, 2, 1, 0, 0, 0, tie}}));
  }
  for (auto const status : {ExitStatus::exited(0), ExitStatus::signalled(9), ExitStatus::not_started(2)}) {
    WorkerFailed failed;
    failed.exit.status = status;
    CHECK(std::get<WorkerFailed>(decode<ToCoordinator>(encode(ToCoordinator(failed))).value()) == failed);
  }
  using Purpose = Hello::Purpose;
  using Asks = Hello::Asks;
  for (Purpose const purpose : {Purpose::agent, Purpose::beat, Purpose::death_notice}) {
    for (Asks const asks : {Asks::meet, Asks::open, Asks::reopen, Asks::enter, Asks::follow}) {
      Hello const hello{kProtocolVersion, "", "", purpose, asks};
      CHECK(decode<Hello>(encode(hello)).value() == hello);
    }
  }
  using Why = HelloReply::Why;
  for (Why const why : {Why::accepted, Why::other_job, Why::other_version}) {
    HelloReply const reply{kProtocolVersion, "", "", {}, why, "", {}};
    CHECK(decode<HelloReply>(encode(reply)).value() == reply);
  }
}

TEST_CASE("messages: hello survives, and one of another version is still recognised", "[unit]") {
  Hello hello{kProtocolVersion, "job.0", "nonce", Hello::Purpose::beat, Hello::Asks::reopen};
  hello.ends = {"10.0.0.2:40001", "[fd00::1]:21894"};
  REQUIRE(decode<Hello>(encode(hello)));
  CHECK(*decode<Hello>(encode(hello)) == hello);
  HelloReply reply{kProtocolVersion, "nonce", "job.0", {}, HelloReply::Why::other_job, "this is job a, not b", {}};
  CHECK(*decode<HelloReply>(encode(reply)) == reply);
  reply.seen = {"10.0.0.9:40001", "10.0.0.1:21894"};
  reply.terms.emplace();
  reply.terms->heartbeat_timeout = Millis{7000};
  reply.terms->fence_dir = "/shared";
  CHECK(*decode<HelloReply>(encode(reply)) == reply);

  auto const future = decode<Hello>(R"({"hello":"cxxrun","version":99,"what":"ever"})");
  REQUIRE(future);
  CHECK(future->version == 99);
}

TEST_CASE("messages: beats survive, and what is no beat is refused by the name of what is missing", "[unit]") {
  constexpr OwnTime kLong = 20'000'000'000'000;  // microseconds of most of a year
  Beat const beat{kLong, kLong - 1, 7};
  CHECK(*decode<Beat>(encode(beat)) == beat);
  BeatAck const ack{kLong, kLong + 1, Millis{4000}, 7};
  CHECK(*decode<BeatAck>(encode(ack)) == ack);
  CHECK(encode(beat).size() + encode(ack).size() + 8 <= 100);  // two per second from a thousand agents are 200 kB/s

  CHECK(decode<Beat>("[1,2]").error().context == "beat lacks generation or has it in the wrong form");
  CHECK(decode<Beat>("[1,2,-3]").error().context == "beat lacks generation or has it in the wrong form");
  CHECK(decode<Beat>(R"(["1",2,3])").error().context == "beat lacks sent or has it in the wrong form");
  CHECK(decode<Beat>("{}").error().context == "beat is no array");
  CHECK(decode<Beat>("[1,2,3").error().context == "beat is not JSON");
  CHECK(decode<BeatAck>("[1,2,-1,3]").error().context == "beat lacks left_ms or has it in the wrong form");
  CHECK(*decode<Beat>("[1,2,3,4]") == Beat{1, 2, 3});  // a later version may have more fields
}

TEST_CASE("messages: every truncation and every flipped byte is an answer, never a throw", "[unit]") {
  for (auto const& message : all_to_coordinator()) {
    std::string const text = encode(message);
    for (std::size_t i = 0; i < text.size(); ++i) {
      CHECK_FALSE(decode<ToCoordinator>(text.substr(0, i)));
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ 0x15);
      (void)decode<ToCoordinator>(flipped);
    }
  }
  for (auto const& message : all_to_agent()) {
    std::string const text = encode(message);
    for (std::size_t i = 0; i < text.size(); ++i) {
      CHECK_FALSE(decode<ToAgent>(text.substr(0, i)));
    }
  }
}

TEST_CASE("messages: numbers out of range and wrong kinds are named", "[unit]") {
  CHECK_FALSE(decode<ToCoordinator>(R"({"type":"ack","generation":-1})"));
  CHECK_FALSE(decode<ToCoordinator>(R"({"type":"ack","generation":"1"})"));
  CHECK_FALSE(decode<ToCoordinator>(R"({"type":"nonsense","generation":1})"));
  auto const bad = decode<ToCoordinator>(R"({"type":"leaving"})");
  REQUIRE_FALSE(bad);
  CHECK(bad.error().message() == "message lacks signal or has it in the wrong form");
}

TEST_CASE("messages: long and binary last words are cut to fit a frame, failures first", "[unit]") {
  Stopped stopped;
  stopped.number = 1;
  for (std::uint32_t i = 0; i < 128; ++i) {
    WorkerExit exit = some_exit();
    exit.local_rank = i;
    exit.ours = i != 127;
    exit.cause = std::string(2000, 'c');
    exit.stderr_tail = std::string(8192, '\xff');
    exit.error_file = std::string(65536, 'e');
    stopped.exits.push_back(exit);
  }
  std::string const text = encode(ToCoordinator(stopped));
  CHECK(text.size() <= wire::kMaxFrame);
  auto const back = decode<ToCoordinator>(text);
  REQUIRE(back);
  auto const& exits = std::get<Stopped>(*back).exits;
  REQUIRE(exits.size() == 128);
  CHECK(exits.front().local_rank == 127);
  CHECK(exits.front().error_file.size() == 65536);
  CHECK(exits.front().cause.size() == 500);
}

TEST_CASE("messages: a thousand workers' last words fit a frame, and each says why, whatever bytes they have",
          "[unit]") {
  Stopped stopped;
  for (std::uint32_t i = 0; i < 1024; ++i) {
    WorkerExit exit = some_exit();
    exit.rank = exit.local_rank = i;
    exit.stderr_tail = std::string(8192, '\x01');
    exit.told = "ValueError: " + std::to_string(i);
    stopped.exits.push_back(exit);
  }
  std::string const text = encode(ToCoordinator(stopped));
  CHECK(text.size() <= wire::kMaxFrame);
  auto const back = decode<ToCoordinator>(text);
  REQUIRE(back);
  for (auto const& exit : std::get<Stopped>(*back).exits) {
    CHECK(exit.told == "ValueError: " + std::to_string(exit.rank));
    CHECK(exit.log == some_exit().log);
  }
}

TEST_CASE("messages: a generation fits in 8 KiB, whatever its members are called", "[unit]") {
  Generation g = some_generation();
  g.world_size = 80'000;
  g.group_size = 10'000;
  g.successors.assign(8, Successor{1, std::string(63, 'n'), std::string(39, 'f'), 65535});
  g.hosts.assign(kMaxHostsText, 'n');
  g.local_sizes.assign(kMaxSizesText, '1');
  g.decree.history = some_history();
  auto const longest = std::string(kWhyOfDecree, 'w');
  g.decree.faults.assign(kFaultsOfDecree, {longest, longest, ~0ULL, longest});
  CHECK(encode(ToAgent(Prepare{g})).size() < std::size_t{8 * 1024});
  CHECK(decode<ToAgent>(encode(ToAgent(Prepare{g}))).has_value());
}

TEST_CASE("messages: lists of members beyond their bounds are refused, missing ones are not", "[unit]") {
  Generation g = some_generation();
  g.hosts.assign(kMaxHostsText + 1, 'n');
  CHECK(decode<ToAgent>(encode(ToAgent(Prepare{g}))).error().message() ==
        "message lacks hosts or has it in the wrong form");
  g.hosts.clear();
  g.local_sizes.assign(kMaxSizesText + 1, '1');
  CHECK_FALSE(decode<ToAgent>(encode(ToAgent(Prepare{g}))).has_value());
  g.local_sizes.clear();
  std::string text = encode(ToAgent(Prepare{g}));
  text.erase(text.find("\"hosts\":\"\","), std::string("\"hosts\":\"\",").size());
  CHECK(decode<ToAgent>(text).has_value());
}

TEST_CASE("messages: a generation whose numbers do not fit together is refused by name", "[unit]") {
  auto const refused = [](auto change) {
    Generation g = some_generation();
    change(g);
    auto const back = decode<ToAgent>(encode(ToAgent(Prepare{g})));
    return back ? "taken" : split(back.error().context, ' ').at(2);
  };
  constexpr std::uint32_t kHuge = 0xffffffff;
  CHECK(refused([](Generation&) {}) == "taken");
  CHECK(refused([](Generation& g) { g.local_size = 0; }) == "local_size");
  CHECK(refused([](Generation& g) { g.local_size = g.world_size = g.role_size = kMaxWorkers + 1; }) == "local_size");
  CHECK(refused([](Generation& g) { g.group_rank = 4; }) == "group_rank");
  CHECK(refused([](Generation& g) { g.group_size = kHuge; }) == "group_rank");
  CHECK(refused([](Generation& g) { g.rank_base = 25; }) == "rank_base");
  CHECK(refused([](Generation& g) { g.rank_base = kHuge; }) == "rank_base");
  CHECK(refused([](Generation& g) { g.world_size = kHuge; }) == "rank_base");
  CHECK(refused([](Generation& g) { g.role_base = 25; }) == "role_base");
  CHECK(refused([](Generation& g) { g.role_size = 33; }) == "role_base");
}

TEST_CASE("messages: the bytes in docs/design/wire_protocol.md are those of the code", "[unit]") {
  std::istringstream page(cxxrun::testing::read_file(std::string(CXXRUN_SOURCE_DIR) + "/docs/design/wire_protocol.md"));
  int lines = 0;
  for (std::string line; std::getline(page, line);) {
    bool const from_agent = line.starts_with("    → ");
    if (!from_agent && !line.starts_with("    ← ")) {
      continue;
    }
    std::string const text = line.substr(std::string("    → ").size());
    INFO(text);
    std::string again;
    if (text.starts_with('[')) {
      again = from_agent ? encode(decode<Beat>(text).value()) : encode(decode<BeatAck>(text).value());
    } else if (text.find("\"hello\"") != std::string::npos) {
      again = from_agent ? encode(decode<Hello>(text).value()) : encode(decode<HelloReply>(text).value());
    } else {
      again = from_agent ? encode(decode<ToCoordinator>(text).value()) : encode(decode<ToAgent>(text).value());
    }
    CHECK(again == text);
    ++lines;
  }
  CHECK(lines == 17);
}
