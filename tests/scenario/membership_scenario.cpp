// Plays the transcripts in tests/scenario/membership against the real membership core.
#include <map>
#include <string>
#include <vector>

#include "rendezvous/membership.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scenario.hpp"

namespace {

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using Lines = std::vector<std::string>;
using Words = std::vector<std::string>;

/// "key=value" among the words, or `otherwise`.
std::string value(Words const& words, std::string const& key, std::string const& otherwise) {
  for (auto const& word : words) {
    if (word.starts_with(key + "=")) {
      return word.substr(key.size() + 1);
    }
  }
  return otherwise;
}

bool has(Words const& words, std::string const& flag) {
  return std::find(words.begin(), words.end(), flag) != words.end();
}

class Player {
 public:
  Lines operator()(Words const& words) {
    std::string const& verb = words[0];
    if (verb == "policy") {
      return set_policy(words);
    }
    if (verb == "time") {
      now_ += std::chrono::milliseconds(static_cast<int>(std::stod(words[1]) * 1000));
      return feed(Tick{});
    }
    if (verb == "open") {
      return feed(Opened{});
    }
    if (verb == "quit") {
      return feed(Quit{15});
    }
    if (verb == "join") {
      return join(words);
    }
    if (verb == "lost") {
      return feed(Lost{ids_.at(words[1]), value(words, "how", "end of file")});
    }
    if (verb == "store") {
      auto const port = static_cast<std::uint16_t>(std::stoi(value(words, "port", "29500")));
      return feed(StoreOpened{number(words), port, port});
    }
    if (verb == "store-failed") {
      return feed(StoreFailed{number(words), "cannot listen on port 29500"});
    }
    return feed(Said{ids_.at(words[1]), message(words)});
  }

 private:
  Lines set_policy(Words const& words) {
    policy_.min_nodes = static_cast<std::uint32_t>(std::stoul(value(words, "min", "1")));
    policy_.max_nodes = static_cast<std::uint32_t>(std::stoul(value(words, "max", "1")));
    policy_.max_restarts = static_cast<std::uint32_t>(std::stoul(value(words, "restarts", "3")));
    policy_.heartbeat_timeout = Millis{std::stoi(value(words, "heartbeat", "0")) * 1000};  // 0: no leases, no votes
    policy_.restart_window = Millis{std::stoi(value(words, "restart-window", "0")) * 1000};
    policy_.scale_out_now = value(words, "scale-out", "now") == "now";
    policy_.join_window = policy_.rejoin_window = Millis{std::stoi(value(words, "window", "5")) * 1000};
    policy_.ends_when_empty = has(words, "unhosted");
    if (auto const expected = value(words, "expected", ""); !expected.empty()) {
      policy_.expected_nodes = static_cast<std::uint32_t>(std::stoul(expected));
    }
    return {};
  }

  Lines join(Words const& words) {
    NodeInfo node;
    node.host = value(words, "host", words[1]);
    node.incarnation = words[1];
    node.slots = static_cast<std::uint32_t>(std::stoul(value(words, "slots", "1")));
    node.role = value(words, "role", "default");
    node.hosts = has(words, "hosts");
    node.reached_at = value(words, "reached", "127.0.0.1");
    if (auto const index = value(words, "index", ""); !index.empty()) {
      node.node_index = static_cast<std::uint32_t>(std::stoul(index));
    }
    AgentId const id = ++last_id_;
    ids_[words[1]] = id;
    names_[id] = words[1];
    return feed(Joined{id, node});
  }

  std::uint64_t number(Words const& words) { return std::stoull(value(words, "gen", std::to_string(state_.number))); }

  /// "2:exit3", "1:sig9", "0:sig15:ours", "0:start2": local rank, how it ended, whether our stop explains it.
  WorkerExit exit_of(std::string const& agent, std::string const& text) {
    WorkerExit exit;
    exit.local_rank = static_cast<std::uint32_t>(std::stoul(text));
    auto const it = state_.seat_of.find(ids_.at(agent));
    exit.rank = (it == state_.seat_of.end() ? 0 : state_.seats[it->second].rank_base) + exit.local_rank;
    std::string const how = text.substr(text.find(':') + 1);
    if (how.starts_with("exit")) {
      exit.status = ExitStatus::exited(std::stoi(how.substr(4)));
    } else if (how.starts_with("sig")) {
      exit.status = ExitStatus::signalled(std::stoi(how.substr(3)));
    } else {
      exit.status = ExitStatus::not_started(std::stoi(how.substr(5)));
    }
    exit.ours = text.ends_with(":ours");
    return exit;
  }

  decltype(Said::message) message(Words const& words) {
    if (words[0] == "ack") {
      return Ack{number(words)};
    }
    if (words[0] == "succeeded") {
      return Succeeded{number(words)};
    }
    if (words[0] == "leaving") {
      return Leaving{std::stoi(words[2])};
    }
    if (words[0] == "unfit") {
      return Unfit{number(words), "health check: exit code 3: no GPU"};
    }
    if (words[0] == "failed") {
      return WorkerFailed{number(words), exit_of(words[1], words[2])};
    }
    REQUIRE(words[0] == "stopped");
    Stopped stopped{number(words), {}, {}};
    for (std::size_t i = 2; i < words.size(); ++i) {
      if (words[i] == "unkillable") {
        stopped.unkillable.emplace_back("pid 77 (dd) state D");
      } else if (words[i].find(':') != std::string::npos) {
        stopped.exits.push_back(exit_of(words[1], words[i]));
      }
    }
    return stopped;
  }

  Lines feed(Event const& event) {
    Step result = step(std::move(state_), event, now_, policy_);
    state_ = std::move(result.next);
    Lines lines;
    for (auto const& action : result.actions) {
      std::visit([&](auto const& concrete) { show(lines, concrete); }, action);
    }
    if (!result.reason.empty()) {
      lines.push_back("log: " + result.reason);
    }
    static char const* const kPhases[] = {"standby", "electing", "forming",  "opening",  "preparing", "proposing",
                                          "gated",   "running",  "stopping", "finished", "deposed"};
    lines.push_back(std::string("phase: ") + kPhases[static_cast<int>(state_.phase)] +
                    " gen=" + std::to_string(state_.number) + " restarts=" + std::to_string(state_.restarts));
    return lines;
  }

  void show(Lines& lines, Tell const& action) {
    lines.push_back("tell " + names_.at(action.agent) + ": " +
                    std::visit([&](auto const& concrete) { return text(concrete); }, action.message));
  }
  static std::string text(Prepare const& m) {
    auto const& g = m.generation;
    return "generation " + std::to_string(g.number) + ": node " + std::to_string(g.group_rank) + " of " +
           std::to_string(g.group_size) + ", ranks " + std::to_string(g.rank_base) + "-" +
           std::to_string(g.rank_base + g.local_size - 1) + " of " + std::to_string(g.world_size) +
           ", role ranks from " + std::to_string(g.role_base) + " of " + std::to_string(g.role_size) + ", master " +
           g.master_addr + ":" + std::to_string(g.master_port) + ", restarts " + std::to_string(g.restarts);
  }
  static std::string text(rendezvous::Start const& m) { return "start " + std::to_string(m.number); }
  static std::string text(Stop const& m) {
    static char const* const kKinds[] = {"failure", "resize", "user"};
    return "stop " + std::to_string(m.number) + " " + kKinds[static_cast<int>(m.kind)] + " (" + m.why + ")";
  }
  static std::string text(Finished const& m) {
    return "finished " + std::to_string(m.exit_code) + " \"" + m.line + "\"";
  }
  static std::string text(Refused const& m) { return "refused " + std::to_string(m.exit_code) + " \"" + m.why + "\""; }

  static std::string text(Ballot const& ballot) {
    return std::to_string(ballot.round) + "." + std::to_string(ballot.rank);
  }
  static std::string text(Decree const& d) {
    return "decree " + std::to_string(d.number) + " after " + std::to_string(d.after) + ", size " +
           std::to_string(d.size) + ", coordinator " + std::to_string(d.coordinator) + ", restarts " +
           std::to_string(d.restarts);
  }
  static std::string text(VoteRequest const& m) {
    return "vote? after " + std::to_string(m.after) + " ballot " + text(m.ballot);
  }
  static std::string text(Propose const& m) { return "propose " + text(m.decree) + ", ballot " + text(m.ballot); }
  static std::string text(Decided const& m) { return "decided " + text(m.decree); }
  static std::string text(Dropped const& m) {
    return "dropped, now " + std::to_string(m.number) + " \"" + m.why + "\"";
  }

  void show(Lines& lines, TellBeat const& a) {
    lines.push_back("beat to " + names_.at(a.agent) + ": generation " + std::to_string(a.ack.number) + ", left " +
                    std::to_string(a.ack.left.count()) + " ms");
  }
  static void show(Lines& lines, ClaimFence const& a) {
    lines.push_back("claim the fence for " + text(a.value.decree) + ", ballot " + text(a.value.ballot));
  }
  static void show(Lines& lines, StoodDown const& a) { lines.push_back("stood down: " + a.why); }
  static void show(Lines& lines, OpenStore const& a) { lines.push_back("open store " + std::to_string(a.number)); }
  static void show(Lines& lines, CloseStore const& a) { lines.push_back("close store " + std::to_string(a.number)); }
  void show(Lines& lines, HangUp const& a) { lines.push_back("hang up on " + names_.at(a.agent)); }
  void show(Lines& lines, ArmTimer const& a) {
    auto const ms = std::chrono::duration_cast<Millis>(a.at - TimePoint{}).count();
    lines.push_back("timer at " + std::to_string(ms) + " ms");
  }
  static void show(Lines& lines, Conclude const& a) {
    lines.push_back(std::string("verdict: ") + name_of(a.verdict.end) + ", exit " +
                    std::to_string(a.verdict.exit_code) + ": " + a.verdict.summary);
    for (auto const& failure : a.verdict.failures) {
      lines.push_back("  failure: rank " + std::to_string(failure.exit.rank) + " on " + failure.host + ": " +
                      failure.exit.status.describe());
    }
    for (auto const& node : a.verdict.set_aside) {
      lines.push_back("  set aside: " + node);
    }
    for (auto const& line : a.verdict.followed) {
      lines.push_back("  " + line);
    }
  }
  static void show(Lines& lines, Close const&) { lines.emplace_back("close"); }

  Policy policy_;
  State state_;
  TimePoint now_{};
  AgentId last_id_ = 0;
  std::map<std::string, AgentId> ids_;
  std::map<AgentId, std::string> names_;
};

}  // namespace

TEST_CASE("membership: every transcript plays as written", "[scenario]") {
  auto const paths = cxxrun::test::transcripts("membership");
  REQUIRE_FALSE(paths.empty());
  for (auto const& path : paths) {
    Player player;
    CHECK(cxxrun::test::play(path, [&](Words const& words) { return player(words); }) == "");
  }
}
