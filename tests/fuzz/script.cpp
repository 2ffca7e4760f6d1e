#include "tests/fuzz/script.hpp"

#include <vector>

namespace cxxrun::fuzz {

using namespace rendezvous;  // NOLINT(google-build-using-namespace)

namespace {

Ballot some_ballot(Script& script, Hints const& hints) {
  return {static_cast<std::uint32_t>(script.near(hints.ballot.round)), script.below(4)};
}

Generation some_generation(Script& script, Hints const& hints) {
  Generation g;
  g.number = script.near(hints.number + 1);
  g.group_size = 1 + script.below(4);
  g.group_rank = script.below(g.group_size);
  g.local_size = 1 + script.below(2);
  g.world_size = 8;
  g.role_size = 8;
  g.coordinator = script.flip() ? "c1" : "c2";
  g.survives = script.flip();
  g.decree = some_decree(script, hints);
  for (std::uint32_t i = script.below(4); i > 0; --i) {
    g.successors.push_back({i - 1, "h" + std::to_string(i), "10.0.0.1", static_cast<std::uint16_t>(1000 + i)});
  }
  return g;
}

/// As it would arrive.
template <class Message, class Decode>
Message carried(Message const& message, Decode decode) {
  auto const back = decode(encode(message));
  require(back && *back == message, "a message changes on its way");
  return *back;
}

}  // namespace

NodeInfo some_node(Script& script) {
  NodeInfo node;
  std::uint32_t const who = script.below(8);
  node.host = "h" + std::to_string(who);
  node.incarnation = node.host + "-" + std::to_string(script.below(3));
  node.slots = 1 + script.below(3);
  if (script.flip()) {
    node.node_index = who;
  }
  node.coordinates = who == 0;
  node.standby_port = static_cast<std::uint16_t>(script.flip() ? 1000 + who : 0);
  return node;
}

Decree some_decree(Script& script, Hints const& hints) {
  Decree decree;
  decree.after = script.near(hints.decided);
  decree.number = script.near(hints.number + 1);
  decree.size = 1 + script.below(4);
  decree.coordinator = script.below(4);
  decree.restarts = script.below(3);
  decree.members = script.below(3);
  decree.tie = static_cast<Tie>(script.below(3));
  return decree;
}

WorkerExit some_exit(Script& script) {
  WorkerExit exit;
  exit.rank = script.below(8);
  exit.status.kind = static_cast<ExitStatus::Kind>(script.below(3));
  exit.status.value = static_cast<int>(script.below(16));
  exit.ours = script.flip();
  return exit;
}

Beat some_beat(Script& script, Hints const& hints) {
  return {OwnTime{script.below(100)} * 1000, OwnTime{script.below(100)} * 1000, script.near(hints.number)};
}

BeatAck some_beat_ack(Script& script, Hints const& hints) {
  return {OwnTime{script.below(100)} * 1000, OwnTime{script.below(100)} * 1000, Millis(script.below(250) * 20),
          script.near(hints.number)};
}

ToCoordinator some_to_coordinator(Script& script, Hints const& hints) {
  auto const make = [&]() -> ToCoordinator {
    switch (script.below(12)) {
      case 0: return Join{};
      case 1: return Ack{script.near(hints.number), script.below(100), script.below(100)};
      case 2: return WorkerFailed{script.near(hints.number), some_exit(script)};
      case 3: return Succeeded{script.near(hints.number)};
      case 4: return Stopped{script.near(hints.number), {some_exit(script)}, {}, {}, script.flip()};
      case 5: return Stopped{script.near(hints.number), {}, {"pid 7"}};
      case 6: return Leaving{static_cast<int>(1 + script.below(15))};
      case 7: return Unfit{script.near(hints.number), "no GPU"};
      case 8: {
        FollowerInfo follower_info;
        follower_info.node = some_node(script);
        follower_info.decided = some_decree(script, hints);
        follower_info.rank = script.flip() ? std::optional(script.below(4)) : std::nullopt;
        follower_info.prepared = script.near(hints.number);
        follower_info.prepared_rank = script.flip() ? std::optional(script.below(4)) : std::nullopt;
        follower_info.seen = script.near(hints.number);
        follower_info.workers = script.flip();
        return follower_info;
      }
      case 9: {
        Vote vote;
        vote.after = script.near(hints.decided);
        vote.ballot = some_ballot(script, hints);
        vote.promised = script.flip() ? vote.ballot : some_ballot(script, hints);
        if (script.flip()) {
          vote.accepted = AcceptedDecree{some_ballot(script, hints), some_decree(script, hints)};
        }
        vote.silent_for = Millis(script.below(100) * 100);
        return vote;
      }
      case 10: {
        Ballot const ballot = some_ballot(script, hints);
        return Accepted{script.near(hints.decided), ballot, script.flip() ? ballot : some_ballot(script, hints)};
      }
      default: {
        if (script.flip()) {
          return script.flip() ? ToCoordinator{Gone{script.near(hints.number), script.below(4)}}
                               : ToCoordinator{Complete{script.near(hints.number)}};
        }
        Progress progress{script.near(hints.number), {}};
        for (auto left = script.below(4); left > 0; --left) {
          auto const entered = script.below(4);
          progress.workers.push_back({script.below(8), entered, entered - (entered > 0 && script.flip() ? 1U : 0U), 0,
                                      25, Millis(script.below(100) * 1000), script.flip()});
        }
        return progress;
      }
    }
  };
  return carried(make(), [](std::string const& text) { return decode<ToCoordinator>(text); });
}

ToAgent some_to_agent(Script& script, Hints const& hints) {
  auto const make = [&]() -> ToAgent {
    switch (script.below(9)) {
      case 0: return Prepare{some_generation(script, hints), script.below(100)};
      case 1: return Start{script.near(hints.number), script.below(100), Millis(script.below(50) * 100)};
      case 2: return Stop{script.near(hints.number), static_cast<StopKind>(script.below(4)), "why"};
      case 3: return Finished{static_cast<int>(script.below(256)), script.flip() ? "line" : ""};
      case 4: return Refused{112, "why"};
      case 5: return VoteRequest{script.near(hints.decided), some_ballot(script, hints)};
      case 6: return Propose{some_ballot(script, hints), some_decree(script, hints)};
      case 7: return Decided{some_decree(script, hints), some_generation(script, hints).successors};
      default:
        if (script.flip()) {
          return script.flip() ? ToAgent{Dropped{script.near(hints.number), "why"}}
                               : ToAgent{LeftOut{script.near(hints.number)}};
        }
        return Kill{script.near(hints.number), script.below(8), script.below(4), "did not enter barrier #4"};
    }
  };
  return carried(make(), [](std::string const& text) { return decode<ToAgent>(text); });
}

}  // namespace cxxrun::fuzz
