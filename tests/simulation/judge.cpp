#include "tests/simulation/judge.hpp"

#include <algorithm>
#include <cstdlib>

#include "rendezvous/membership/state.hpp"
#include "tests/simulation/job.hpp"

namespace cxxrun::simulation {

namespace rdzv = cxxrun::rendezvous;
using rdzv::Phase;

bool Judge::checks_quorum() const {
  return job_.schedule.policy.tie != rdzv::Tie::none;
}

/// No two generations' workers execute anywhere at once. Where agent and parent have been frozen together, the lease
/// is enforced from the thaw on: that is the one hole, and docs/design/election.md names it.
void Judge::executing_changed() {
  note_idle();
  if (!checks_quorum()) {
    return;
  }
  std::uint64_t number = 0;
  Node const* first = nullptr;
  for (auto const& node : job_.nodes) {
    if (!node->executing() || job_.hosts[node->host]->forgiven_until > job_.world.now()) {
      continue;
    }
    auto const here = node->workers->generation().number;
    if (first != nullptr && here != number) {
      job_.world.violated("workers of generation " + std::to_string(number) + " on " + first->name() + " and of " +
                          std::to_string(here) + " on " + node->name() + " execute at once");
      return;
    }
    number = here;
    first = node.get();
  }
}

/// Its workers reach the store, and its members know whom to follow, now and when that one is lost.
void Judge::named(rdzv::Generation const& generation) {
  bool const alone = generation.group_size == 1;
  auto const has = [alone](std::string const& address) {
    return !address.empty() && (alone || !address.starts_with("127."));
  };
  auto const& successors = generation.successors;
  // A coordinator whose own node is excluded goes on without a seat.
  bool const seatless = std::any_of(job_.nodes.begin(), job_.nodes.end(), [&](auto const& node) {
    auto const& state = node->hosted.state();
    auto const& present = state.roster.present;
    return node->hosted.leads() && state.number == generation.number &&
           std::none_of(present.begin(), present.end(),
                        [&](auto const& entry) { return entry.second.incarnation == node->info.incarnation; });
  });
  std::string const lacks =
      generation.coordinator.empty() && !seatless ? "its coordinator"
      : !has(generation.master_addr)              ? "an address of its store that all can call"
      : !std::all_of(successors.begin(), successors.end(), [&](auto const& each) { return has(each.address); })
          ? "addresses of its successors"
          : "";
  if (!lacks.empty()) {
    job_.world.violated("generation " + std::to_string(generation.number) + " does not name " + lacks);
  }
}

/// The time of all nodes is up when that of the first one is, whoever coordinates. Until then clocks and messages take
/// their time, which is less than half of what lies between the ends of two nodes.
void Judge::ends_with_the_first(Node const& node) {
  Micros const end = job_.hosts[node.host]->clock.when(*node.job_end.end);
  if (std::abs(end - micros(time_limit(0))) > micros(kBetweenLimits) / 2) {
    job_.world.violated("the job ends on " + node.name() + " after " + std::to_string(end / 3'600'000'000) + " h");
  }
}

void Judge::started(Node const& node, rdzv::Generation const& generation) {
  named(generation);
  ends_with_the_first(node);
  auto const [it, first] = generations_.try_emplace(generation.number);
  Seen& seen = it->second;
  auto& world = job_.world;
  if (first) {
    seen.decree = generation.decree;
    seen.world_size = generation.world_size;
    seen.restarts = generation.restarts;
    ++generations;
    if (checks_quorum()) {
      restarted(generation);
    }
    auto const before = it == generations_.begin() ? it : std::prev(it);
    auto const after = std::next(it);
    bool const falls = before->second.restarts > seen.restarts ||
                       (after != generations_.end() && after->second.restarts < seen.restarts);
    if (falls && checks_quorum()) {
      world.violated("the restart count falls at generation " + std::to_string(generation.number));
    }
  }
  if (generation.restarts > job_.schedule.policy.max_restarts) {
    world.violated("more restarts than allowed");
  }
  if (!checks_quorum()) {
    executing_changed();
    return;
  }
  if (!(generation.decree == seen.decree) || generation.world_size != seen.world_size ||
      generation.restarts != seen.restarts) {
    world.violated("two generations have the number " + std::to_string(generation.number));
  }
  if (!seen.group_ranks.insert(generation.group_rank).second || generation.group_rank >= generation.group_size) {
    world.violated("two nodes have the group rank " + std::to_string(generation.group_rank) + " in generation " +
                   std::to_string(generation.number));
  }
  last_started = {generation.number, seen.group_ranks.size()};
  auto const by = decrees_.find(generation.decree.after);
  bool const pair = generation.decree.number > generation.decree.after + 50;
  if (!pair && (by == decrees_.end() || !(by->second == generation.decree))) {
    world.violated("workers of generation " + std::to_string(generation.number) + " start before it is decided");
  }
  auto const [mine, fresh] = seen.ranks.emplace(generation.rank_base, generation.local_size);
  auto const next = std::next(mine);
  bool overlap = !fresh || generation.rank_base + generation.local_size > generation.world_size;
  overlap = overlap || (next != seen.ranks.end() && mine->first + mine->second > next->first);
  overlap = overlap || (mine != seen.ranks.begin() && std::prev(mine)->first + std::prev(mine)->second > mine->first);
  if (overlap) {
    world.violated("ranks of generation " + std::to_string(generation.number) + " are no permutation, says " +
                   node.name());
  }
  if (seen.group_ranks.size() == generation.group_size) {
    std::uint32_t total = 0;
    for (auto const& [base, size] : seen.ranks) {
      total += size;
    }
    if (total != generation.world_size) {
      world.violated("ranks of generation " + std::to_string(generation.number) + " have a hole");
    }
  }
  executing_changed();
}

void Judge::decided(rdzv::Decree const& decree) {
  if (decree.number == 0 || !checks_quorum()) {
    return;
  }
  if (decree.number > decree.after + 50) {
    // The pair rule: the other member is dead, whatever it has decided alone, and it was the only one to run that. Its
    // port is refused, and its death notice sent, only once all that it started is reaped: nothing of both ever
    // executes.
    auto const votes = [&](auto const& node) {
      auto const& known = node->state.follower.decided;
      return node->running() && known.rank && known.decree.number >= decree.after &&
             known.decree.number < decree.number;
    };
    if (job_.schedule.nodes != 2 || std::count_if(job_.nodes.begin(), job_.nodes.end(), votes) > 1) {
      job_.world.violated("generation " + std::to_string(decree.number) +
                          " is decided by the pair rule beside another");
    }
    return;
  }
  auto const [it, first] = decrees_.emplace(decree.after, decree);
  decrees += first ? 1 : 0;
  if (first) {
    counted(decree);
  }
  if (!(it->second == decree)) {
    job_.world.violated("two decrees after generation " + std::to_string(decree.after) + ": " +
                        std::to_string(it->second.number) + " of " + std::to_string(it->second.size) + " and " +
                        std::to_string(decree.number) + " of " + std::to_string(decree.size));
  }
}

/// A seat votes once for each ballot, in the order of the ballots, and says what it has accepted.
void Judge::said(Node const& node, rdzv::ToCoordinator const& message) {
  if (auto const* const vote = std::get_if<rdzv::Vote>(&message)) {
    voted(node, *vote);
  } else if (auto const* const acceptance = std::get_if<rdzv::Accepted>(&message)) {
    accepted(node, *acceptance);
  } else if (auto const* const ack = std::get_if<rdzv::Ack>(&message)) {
    ready_.emplace(ack->number, node.info.incarnation);
  }
}

void Judge::voted(Node const& node, rdzv::Vote const& vote) {
  if (!checks_quorum() || vote.promised != vote.ballot || !node.state.follower.decided.rank) {
    return;
  }
  Votes& votes = votes_[{vote.after, *node.state.follower.decided.rank}];
  if (vote.ballot < votes.promised) {
    job_.world.violated(node.name() + " breaks its promise: it votes for round " + std::to_string(vote.ballot.round));
  }
  if ((vote.accepted ? vote.accepted->ballot : rdzv::Ballot{}) < votes.accepted) {
    job_.world.violated(node.name() + " votes twice: it does not say what its seat has accepted");
  }
  votes.promised = std::max(votes.promised, vote.ballot);
}

void Judge::accepted(Node const& node, rdzv::Accepted const& acceptance) {
  if (!checks_quorum() || acceptance.promised != acceptance.ballot || !node.state.follower.decided.rank) {
    return;
  }
  Votes& votes = votes_[{acceptance.after, *node.state.follower.decided.rank}];
  if (acceptance.ballot < votes.promised) {
    job_.world.violated(node.name() + " breaks its promise: it accepts in round " +
                        std::to_string(acceptance.ballot.round));
  }
  votes.promised = std::max(votes.promised, acceptance.ballot);
  votes.accepted = std::max(votes.accepted, acceptance.ballot);
}

/// Who has promised a higher ballot to another is no candidate any more.
void Judge::campaign(Node const& node) {
  auto const& acceptor = node.state.follower.acceptor;
  auto const& state = node.hosted.state();
  auto const& proposer = state.proposer;
  bool const campaigns = !node.hosted.over() && proposer.taking_over() && state.phase != Phase::standby &&
                         state.phase != Phase::deposed && state.phase != Phase::finished;
  if (campaigns && proposer.decided.number == acceptor.after && proposer.ballot < acceptor.promised) {
    job_.world.violated(node.name() + " has promised round " + std::to_string(acceptor.promised.round) +
                        " to another and goes on as a candidate");
  }
}

/// What is proposed, or decided without a vote, can run: all of its members are ready.
void Judge::all_ready(Node const& node) {
  auto const& state = node.hosted.state();
  bool const proposed =
      state.phase == Phase::proposing && state.proposer.stage != rdzv::Stage::claiming && !state.proposer.adopted();
  if ((!proposed && state.phase != Phase::lease_wait && state.phase != Phase::running) ||
      !checked_.emplace(state.number, node.info.incarnation).second) {
    return;
  }
  for (auto const& seat : state.group.seats) {
    if (!ready_.contains({state.number, seat.node.incarnation})) {
      job_.world.violated("generation " + std::to_string(state.number) + " is proposed although " + seat.node.host +
                          " is not ready");
      return;
    }
  }
}

/// Nobody waits for nothing: there is a timer, a call under way, or the job is over here.
void Judge::agent_stepped(Node const& node) {
  campaign(node);
  bool const calm = job_.schedule.faults.empty() || job_.world.now() < job_.schedule.faults.front().at;
  if (calm && (node.state.life == agent::Life::fenced || node.state.frozen)) {
    job_.world.violated("the lease of " + node.name() + " runs out although nothing has happened");
  }
  bool const reaping =
      node.process.pending() || (node.workers && !node.workers->reaped());  // the kernel says when they are gone
  if (!node.running() || node.timer_armed || node.calling() || reaping || node.state.life == agent::Life::done) {
    return;
  }
  job_.world.violated(node.name() + " waits without a timer in life " +
                      std::to_string(static_cast<int>(node.state.life)));
}

void Judge::coordinator_stepped(Node const& node) {
  auto const& hosted = node.hosted;
  auto const& state = hosted.state();
  rounds = std::max(rounds, state.proposer.ballot.round);
  all_ready(node);
  if (state.proposer.decided.number != 0 && state.phase != Phase::standby) {
    decided(state.proposer.decided);
  }
  if (state.restarts.consumed > job_.schedule.policy.max_restarts) {
    job_.world.violated("more restarts than allowed");
  }
  // A campaign ends when its own agent says so: that one has a timer.
  bool const candidate = state.phase == Phase::electing && (node.timer_armed || node.state.follower.search);
  bool const waits = !candidate && state.phase != Phase::standby && state.phase != Phase::deposed &&
                     state.phase != Phase::opening && state.phase != Phase::running;
  if (!hosted.over() && waits && !hosted.timer_armed && !hosted.claiming) {
    job_.world.violated("the coordinator in " + node.name() + " waits without a timer in phase " +
                        std::to_string(static_cast<int>(state.phase)));
  }
  if (!hosted.over() && state.phase == Phase::opening && !hosted.opening_store) {
    job_.world.violated("the coordinator in " + node.name() + " waits for a store that nobody opens");
  }
}

/// A verdict never names a victim when it is known who began.
void Judge::concluded(Node const& node, rdzv::Verdict const& verdict, Program const* program) {
  ++ends[std::string("verdict: ") + rdzv::name_of(verdict.end)];
  job_.world.note([&] { return node.name() + " concludes: " + verdict.summary; });
  verdicts_.emplace(verdict.generation, std::pair{&node, verdict.exit_code});
  // F28: who was lost and has called whom the others elected counts as a lost node.
  if (job_.schedule.seed >= kOnlyCuts && (verdict.end == rdzv::End::worker_failed || verdict.restarts > 0)) {
    job_.world.violated("the job pays for failures of workers although only connections were lost: " + verdict.summary);
  }
  if (verdict.end == rdzv::End::too_few_nodes &&
      node.hosted.state().roster.present.size() >= job_.schedule.policy.min_nodes) {
    job_.world.violated("too few nodes, says " + node.name() + ", and there are enough: " + verdict.summary);
  }
  bool const calm = std::none_of(job_.schedule.faults.begin(), job_.schedule.faults.end(), [](Fault const& fault) {
    return fault.trouble >= Trouble::agent_freezes && fault.trouble <= Trouble::connections_die;
  });
  bool const of_a_worker = verdict.end == rdzv::End::worker_failed || verdict.end == rdzv::End::failed_alike;
  if (verdict.end == rdzv::End::failed_alike && job_.schedule.policy.max_restarts_given) {
    job_.world.violated("the job ends before its restarts are used up: " + verdict.summary);
  }
  if (!calm || program == nullptr || !of_a_worker || verdict.failures.empty()) {
    return;
  }
  auto const blamed = verdict.failures.front().exit.rank;
  if (program->node_lost) {
    job_.world.violated("rank " + std::to_string(blamed) + " is blamed although a node was lost before");
  } else if (program->culprit && *program->culprit != blamed) {
    job_.world.violated("rank " + std::to_string(blamed) + " is blamed, a victim of rank " +
                        std::to_string(*program->culprit));
  }
}

bool Judge::only_deaths() const {
  return std::all_of(job_.schedule.faults.begin(), job_.schedule.faults.end(), [](Fault const& fault) {
    return fault.trouble <= Trouble::host_vanishes || fault.trouble == Trouble::worker_fails ||
           fault.trouble == Trouble::parent_dies;
  });
}

/// How many are left of the last generation, `also` among them, if that is most of it and of each that somebody may
/// take for the last: what only the dead have known to be decided, nobody can find out.
std::size_t Judge::most_left(Node const* also) const {
  auto const lives = [&](auto const& node) { return node->running() || node.get() == also; };
  std::uint64_t known = 0;
  for (auto const& node : job_.nodes) {
    known = std::max(known, lives(node) ? node->state.follower.decided.decree.number : 0);
  }
  std::size_t most = 0;
  for (auto const& [after, decree] : decrees_) {
    auto const left = std::count_if(job_.nodes.begin(), job_.nodes.end(), [&](auto const& node) {
      return lives(node) && ready_.contains({decree.number, node->info.incarnation});
    });
    if (decree.number >= known) {
      most = static_cast<std::size_t>(left);
      if (most * 2 <= decree.size) {
        return 0;
      }
    }
  }
  return most;
}

void Judge::settled() {
  auto const goes_on = [](auto const& node) {
    return node->exit_code || node->executing() || (node->workers && node->workers->succeeded());
  };
  bool const looks = only_deaths() && checks_quorum() && !job_.over();
  if (looks && std::none_of(job_.nodes.begin(), job_.nodes.end(), goes_on) &&
      most_left(nullptr) >= job_.schedule.policy.min_nodes) {
    job_.world.violated("no workers run although nobody has died for " + std::to_string(kSettles) + " T");
  }
}

/// Whose workers have done their work hears what became of the job, if whoever knows is well and not cut off for long.
void Judge::heard_verdict(Node const& node, int code) {
  auto const& faults = job_.schedule.faults;
  bool const in_reach =
      job_.schedule.seed >= kOnlyCuts || std::none_of(faults.begin(), faults.end(), [](Fault const& fault) {
        return fault.trouble >= Trouble::agent_freezes && fault.trouble <= Trouble::flaky;
      });
  auto const& known = node.state.follower.decided;
  bool const cannot_ask = code == kExitCoordinatorLost && job_.schedule.policy.min_nodes >= known.decree.size;
  if (!in_reach || cannot_ask || !checks_quorum() || !node.workers || !node.workers->succeeded()) {
    return;
  }
  auto const verdict = verdicts_.find(node.workers->generation().number);
  if (verdict != verdicts_.end() && !verdict->second.first->killed && verdict->second.second != code) {
    job_.world.violated(node.name() + " leaves with " + std::to_string(code) + " although its work is done and " +
                        verdict->second.first->name() + " has concluded " + std::to_string(verdict->second.second));
  }
}

void Judge::left(Node const& node, int code) {
  static std::set<int> const kDocumented{0, 1, 3, 111, 112, 113, 114, 116, 128 + 9, 128 + 11, 128 + 15, 100};
  ++ends["agent left with " + std::to_string(code)];
  if (!kDocumented.contains(code)) {
    job_.world.violated(node.name() + " leaves with the undocumented code " + std::to_string(code));
  }
  heard_verdict(node, code);
  auto const& known = node.state.follower.decided;
  bool const may_go_on = known.rank && job_.schedule.policy.min_nodes < known.decree.size;
  if (code == kExitCoordinatorLost && may_go_on && only_deaths() && checks_quorum() &&
      most_left(&node) >= job_.schedule.policy.min_nodes) {
    job_.world.violated(node.name() + " leaves for its coordinator's loss although most nodes are left");
  }
  bool const orderly = std::all_of(job_.schedule.faults.begin(), job_.schedule.faults.end(), [](Fault const& fault) {
    return fault.trouble == Trouble::told_to_end || fault.trouble == Trouble::worker_fails ||
           fault.trouble == Trouble::worker_unkillable || fault.trouble == Trouble::joins;
  });
  if (orderly && code == kExitPartitioned) {
    job_.world.violated(node.name() + " is partitioned although nobody was lost");
  }
  if (code == kExitPartitioned && only_deaths() && checks_quorum() && most_left(&node) > 0) {
    job_.world.violated(node.name() + " is partitioned although most nodes are left");
  }
  if (code == kExitPartitioned && job_.schedule.seed >= kOnlyCuts && !ends.contains("verdict: too few nodes") &&
      !ends.contains("agent left with 113")) {
    job_.world.violated(node.name() + " is partitioned although no cut was as long as the timeout");
  }
  if (node.workers && !node.workers->reaped()) {
    job_.world.violated(node.name() + " leaves while workers of its own are not reaped");
  }
  if (node.workers && node.workers->waiting()) {
    job_.world.violated(node.name() + " leaves while workers of its own wait for another generation");
  }
}

}  // namespace cxxrun::simulation
