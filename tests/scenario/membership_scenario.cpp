// Plays the transcripts in tests/scenario/membership against the real membership core.
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/membership/membership.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/scenario.hpp"

namespace {

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::Lines;
using cxxrun::test::value;
using cxxrun::test::Words;

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
      now_ += std::chrono::seconds(std::stoi(value(words, "after", "0")));  // before the timer rings
      auto const how = value(words, "how", "end of file");
      auto const in_order = has(words, "killed") ? Ended::in_order : Ended::goodbye;  // its kernel closes it then
      return feed(Lost{ids_.at(words[1]), how, how == "end of file" ? in_order : Ended::broken});
    }
    if (verb == "store") {
      auto const port = static_cast<std::uint16_t>(std::stoi(value(words, "port", "29500")));
      return feed(StoreOpened{number(words), port, port});
    }
    if (verb == "store-failed") {
      return feed(StoreFailed{number(words), "cannot listen on port 29500"});
    }
    return verb == "follower_info" || kElection.contains(verb) ? election(words)
                                                               : feed(Said{agent(words), message(words)});
  }

 private:
  static inline std::set<std::string> const kElection{"standby", "campaign",    "withdraw", "follower_info",
                                                      "beat",    "beats-ended", "gone",     "fenced"};

  AgentId agent(Words const& words) { return ids_.at(words[1]); }

  AgentId named(std::string const& name) {
    AgentId const id = ++last_id_;
    ids_[name] = id;
    names_[id] = name;
    return id;
  }

  static std::uint64_t count(Words const& words, std::string const& key, std::string const& otherwise) {
    return std::stoull(value(words, key, otherwise));
  }

  /// "2.1": round 2 of rank 1.
  static Ballot ballot(std::string const& text) {
    return {static_cast<std::uint32_t>(std::stoul(text)),
            static_cast<std::uint32_t>(std::stoul(text.substr(text.find('.') + 1)))};
  }

  /// decided=7 size=3 and what else is not as at the start: the decree that the words describe.
  [[nodiscard]] Decree decree(Words const& words, std::string const& key) const {
    Decree decree;
    decree.number = count(words, key, "1");
    decree.after = count(words, "after", std::to_string(decree.number - 1));
    decree.size = static_cast<std::uint32_t>(count(words, "size", "3"));
    decree.coordinator = static_cast<std::uint32_t>(count(words, "coordinator", "0"));
    decree.restarts = static_cast<std::uint32_t>(count(words, "restarts", "0"));
    decree.streak.failures = static_cast<std::uint32_t>(count(words, "failures", "0"));
    decree.tie = policy_.tie;
    if (auto const bad = value(words, "fault", ""); !bad.empty()) {  // "#2@host2"
      decree.faults = {{bad.substr(bad.find('@') + 1), "rank 2: signal 7 (SIGBUS)", 7, bad.substr(0, bad.find('@'))}};
    }
    return decree;
  }

  /// "accepted=8@2.1": that decree, accepted in that round; the size is accepted-size.
  [[nodiscard]] std::optional<AcceptedDecree> accepted(Words const& words, std::string const& key) const {
    auto const text = value(words, key, "");
    if (text.empty()) {
      return std::nullopt;
    }
    if (text == "ours") {
      return AcceptedDecree{state_.proposer.ballot, state_.proposer.proposal.value_or(Decree{})};
    }
    AcceptedDecree held{ballot(text.substr(text.find('@') + 1)), {}};
    held.decree.number = std::stoull(text);
    held.decree.after = state_.proposer.decided.number;
    held.decree.size = static_cast<std::uint32_t>(count(words, "accepted-size", "2"));
    held.decree.tie = policy_.tie;
    return held;
  }

  Lines election(Words const& words) {
    std::string const& verb = words[0];
    if (verb == "standby") {
      state_.phase = Phase::standby;
      return {};
    }
    if (verb == "campaign") {
      Campaign campaign{decree(words, "decided"), ballot(value(words, "ballot", "2.1")), count(words, "seen", "1"), {}};
      for (std::uint32_t rank = 0; rank < campaign.decided.size; ++rank) {
        campaign.hosts.push_back("host" + std::to_string(rank));
      }
      campaign.pair = has(words, "pair");
      campaign.half_after = Millis{count(words, "half-after", "0")};
      return feed(campaign);
    }
    if (verb == "withdraw") {
      return feed(Withdraw{"follows another"});
    }
    if (verb == "follower_info") {
      return follower_info(words);
    }
    if (verb == "beat") {  // echo=2.5: the coordinator's send time in seconds; as a rule it has seen the newest
      auto const own = std::chrono::duration_cast<std::chrono::microseconds>(now_.time_since_epoch()).count();
      auto const echo = value(words, "echo", "");
      return feed(Beaten{agent(words), {own, echo.empty() ? own : static_cast<OwnTime>(std::stod(echo) * 1e6), 0}});
    }
    if (verb == "beats-ended") {
      return feed(BeatsEnded{agent(words)});
    }
    if (verb == "gone") {  // generation and group rank
      return feed(ConfirmedDead{{std::stoull(words[1]), static_cast<std::uint32_t>(std::stoul(words[2]))}});
    }
    return feed(Fenced{state_.proposer.decided.number, accepted(words, "holds"), "no such directory"});
  }

  Lines follower_info(Words const& words) {
    AgentId const id = has(words, "again") ? agent(words) : named(words[1]);
    FollowerInfo follower_info;
    follower_info.node = node(words);
    follower_info.decided = decree(words, "decided");
    if (auto const rank = value(words, "rank", ""); !rank.empty()) {
      follower_info.rank = static_cast<std::uint32_t>(std::stoul(rank));
    }
    if (auto const rank = value(words, "prepared-rank", ""); !rank.empty()) {
      follower_info.prepared_rank = static_cast<std::uint32_t>(std::stoul(rank));
      follower_info.prepared = count(words, "prepared", "2");
      follower_info.prepared_members = count(words, "prepared-members", "0");
    }
    follower_info.seen = count(words, "seen", "1");
    follower_info.workers = has(words, "workers");
    if (follower_info.workers || has(words, "begun")) {
      follower_info.begun_for = Millis{1000};
    }
    if (auto const rank = value(words, "dead", ""); !rank.empty()) {
      follower_info.dead = {{static_cast<std::uint32_t>(std::stoul(rank)), Millis{0}}};
    }
    return feed(FollowerCalled{id, follower_info});
  }

  Lines set_policy(Words const& words) {
    policy_.min_nodes = static_cast<std::uint32_t>(std::stoul(value(words, "min", "1")));
    policy_.max_nodes = static_cast<std::uint32_t>(std::stoul(value(words, "max", "1")));
    policy_.max_restarts = static_cast<std::uint32_t>(std::stoul(value(words, "restarts", "3")));
    policy_.max_restarts_given = !has(words, "by-default");
    policy_.restart_delay = Millis{std::stoi(value(words, "restart-delay", "0")) * 1000};
    policy_.heartbeat_timeout = Millis{std::stoi(value(words, "heartbeat", "0")) * 1000};  // 0: no leases, no votes
    policy_.restart_window = Millis{std::stoi(value(words, "restart-window", "0")) * 1000};
    policy_.hang_timeout = Millis{std::stoi(value(words, "hang-timeout", "0")) * 1000};
    policy_.scale_out_now = value(words, "scale-out", "now") == "now";
    policy_.join_window = policy_.rejoin_window = Millis{std::stoi(value(words, "window", "5")) * 1000};
    auto const tie = value(words, "tie", "rank");
    policy_.tie = tie == "rank" ? Tie::rank : tie == "fence" ? Tie::fence : Tie::none;
    policy_.ends_when_empty = has(words, "unhosted");
    policy_.oom_kills_step = has(words, "oom-kills-step");
    if (auto const expected = value(words, "expected", ""); !expected.empty()) {
      policy_.expected_nodes = static_cast<std::uint32_t>(std::stoul(expected));
    }
    if (auto const bad = value(words, "known-bad", ""); !bad.empty()) {
      state_.roster.fitness.faults = {{bad, "lost"}, {bad, "rank 3: signal 7 (SIGBUS)"}};
    }
    return {};
  }

  static NodeInfo node(Words const& words) {
    NodeInfo node;
    node.host = value(words, "host", words[1]);
    node.incarnation = value(words, "is", words[1]);  // "is=": the agent of that name, on another connection
    node.slots = static_cast<std::uint32_t>(std::stoul(value(words, "slots", "1")));
    node.role = value(words, "role", "default");
    node.coordinates = has(words, "coordinates");
    node.reached_at = value(words, "reached", "127.0.0.1");
    if (auto const index = value(words, "index", ""); !index.empty()) {
      node.node_index = static_cast<std::uint32_t>(std::stoul(index));
    }
    return node;
  }

  Lines join(Words const& words) { return feed(Joined{named(words[1]), node(words)}); }

  std::uint64_t number(Words const& words) { return std::stoull(value(words, "gen", std::to_string(state_.number))); }

  /// "2:exit3", "1:sig9", "0:sig15:ours", "0:start2", "0:exit1:lacks": local rank, how it ended, whether our stop
  /// explains it, whether it says that it lacks a module.
  WorkerExit exit_of(std::string const& agent, std::string const& text) {
    WorkerExit exit;
    exit.local_rank = static_cast<std::uint32_t>(std::stoul(text));
    auto const it = state_.group.seat_of.find(ids_.at(agent));
    exit.rank = (it == state_.group.seat_of.end() ? 0 : state_.group.seats[it->second].rank_base) + exit.local_rank;
    std::string const how = text.substr(text.find(':') + 1);
    if (how.starts_with("exit")) {
      exit.status = ExitStatus::exited(std::stoi(how.substr(4)));
    } else if (how.starts_with("sig")) {
      exit.status = ExitStatus::signalled(std::stoi(how.substr(3)));
    } else {
      exit.status = ExitStatus::not_started(std::stoi(how.substr(5)));
    }
    exit.ours = text.ends_with(":ours");
    exit.hung = text.ends_with(":hung") ? killed_for_ : "";
    exit.stderr_tail = text.ends_with(":lacks") ? "ModuleNotFoundError: No module named 'apex'\n" : "";
    return exit;
  }

  decltype(Said::message) message(Words const& words) {
    if (words[0] == "ack") {  // as a rule it says when the generation was sent, as the real one does
      return Ack{number(words), has(words, "mute") ? 0 : prepared_at_, 1};
    }
    if (words[0] == "vote") {
      Vote vote{state_.proposer.decided.number, state_.proposer.ballot, state_.proposer.ballot,
                accepted(words, "accepted"), Millis{static_cast<int>(std::stod(value(words, "silent", "0")) * 1000)}};
      vote.promised = ballot(value(words, "promised", text(vote.promised)));
      return vote;
    }
    if (words[0] == "accepted") {
      Ballot const asked = state_.proposer.ballot;
      return Accepted{state_.proposer.decided.number, asked, ballot(value(words, "promised", text(asked)))};
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
    if (words[0] == "still") {
      return still(words);
    }
    REQUIRE(words[0] == "stopped");
    Stopped stopped{number(words), {}, {}};
    for (std::size_t i = 2; i < words.size(); ++i) {
      if (words[i] == "unkillable") {
        stopped.unkillable.emplace_back("pid 77 (dd) state D");
      } else if (words[i] == "stepped") {
        stopped.steps = {Millis{0}, Millis{0}};
      } else if (words[i].find(':') != std::string::npos) {
        stopped.exits.push_back(exit_of(words[1], words[i]));
      }
    }
    return stopped;
  }

  /// "still b 1:7/6@15 0:8/8@0": local rank 1 has begun 7 and done 6 and not moved for 15 s; local rank 0 moves again.
  /// ":halted": its process is stopped.
  Progress still(Words const& words) {
    Progress progress{number(words), {}};
    auto const base = state_.group.seats.at(state_.group.seat_of.at(ids_.at(words[1]))).rank_base;
    for (std::size_t i = 2; i < words.size(); ++i) {
      if (words[i].find('@') == std::string::npos) {
        continue;
      }
      Standstill each;
      each.rank = base + static_cast<std::uint32_t>(std::stoul(words[i]));
      each.entered = std::stoull(words[i].substr(words[i].find(':') + 1));
      each.done = std::stoull(words[i].substr(words[i].find('/') + 1));
      each.count = 25;
      each.still = Millis{std::stoi(words[i].substr(words[i].find('@') + 1)) * 1000};
      each.halted = words[i].ends_with(":halted");
      progress.workers.push_back(each);
    }
    return progress;
  }

  Lines feed(Event const& event) {
    Step result = step(std::move(state_), event, now_, policy_);
    state_ = std::move(result.next);
    Lines lines;
    for (auto const& action : result.actions) {
      std::visit([&](auto const& concrete) { show(lines, concrete); }, action);
    }
    for (auto const& line : result.said) {
      if (line.text.find(" -> ") != std::string::npos) {
        continue;  // a transition: the last line has the new phase
      }
      static char const* const kLevels[] = {"debug", "info", "warn", "error"};
      lines.push_back(std::string(kLevels[static_cast<int>(line.level)]) + ": " + line.text);
    }
    auto const phase = std::string("phase: ") + name_of(state_.phase) + " gen=" + std::to_string(state_.number) +
                       " restarts=" + std::to_string(state_.restarts.consumed);
    if (phase != shown_phase_) {
      lines.push_back(shown_phase_ = phase);
    }
    return lines;
  }

  void show(Lines& lines, Tell const& action) {
    if (auto const* const prepare = std::get_if<Prepare>(&action.message)) {
      prepared_at_ = prepare->sent;
    }
    if (auto const* const kill = std::get_if<Kill>(&action.message)) {
      killed_for_ = kill->why;
    }
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
  static std::string text(rendezvous::Start const& m) {
    return "start " + std::to_string(m.number) +
           (m.left > Millis{0} ? ", left " + std::to_string(m.left.count()) + " ms" : "");
  }
  static std::string text(Stop const& m) {
    static char const* const kKinds[] = {"failure", "resize", "user"};
    return "stop " + std::to_string(m.number) + " " + kKinds[static_cast<int>(m.kind)] + " (" + m.why + ")";
  }
  static std::string text(Kill const& m) {
    return "kill rank " + std::to_string(m.rank) + " of " + std::to_string(m.number) + " at " +
           std::to_string(m.entered) + ": it " + m.why;
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
           std::to_string(d.restarts) +
           (d.streak.failures == 0 ? "" : ", failures " + std::to_string(d.streak.failures)) +
           std::accumulate(d.faults.begin(), d.faults.end(), std::string(), [](auto const& list, auto const& fault) {
             return list + ", fault of " + fault.key + " (" + fault.host + ": " + fault.what + ")";
           });
  }
  static std::string text(VoteRequest const& m) {
    return "vote? after " + std::to_string(m.after) + " ballot " + text(m.ballot);
  }
  static std::string text(Propose const& m) { return "propose " + text(m.decree) + ", ballot " + text(m.ballot); }
  static std::string text(Decided const& m) { return "decided " + text(m.decree); }
  static std::string text(rendezvous::LeftOut const& m) {
    return "left out after generation " + std::to_string(m.number);
  }
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
  static void show(Lines& lines, SteppedDown const& a) { lines.push_back("stepped down: " + a.why); }
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
                      failure.exit.status.describe() + (failure.exit.hung.empty() ? "" : ": it " + failure.exit.hung));
    }
    for (auto const& fault : a.verdict.node_faults) {
      lines.push_back("  fault of " + fault.host + ": " + fault.what);
    }
    for (auto const& node : a.verdict.excluded) {
      lines.push_back("  excluded: " + node);
    }
    for (auto const& line : a.verdict.followed) {
      lines.push_back("  " + line);
    }
  }
  static void show(Lines& lines, Close const&) { lines.emplace_back("close"); }

  Policy policy_;
  State state_;
  TimePoint now_{};
  std::string shown_phase_;  ///< an answer ends with the phase when it is another one
  std::string killed_for_;   ///< by the newest Kill
  OwnTime prepared_at_ = 0;  ///< send time of the newest generation
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
