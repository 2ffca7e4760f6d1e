#include "rendezvous/membership/events.hpp"

#include <array>
#include <type_traits>
#include <utility>

namespace cxxrun::rendezvous {
namespace {

NodeInfo with_ends(NodeInfo node, MemberEnds const& ends) {
  node.coordinates = node.incarnation == ends.own;
  node.reached_at = ends.to;
  node.calls_from = ends.from;
  node.relayed = ends.relayed;
  return node;
}

Event follower_called(AgentId agent, FollowerInfo&& follower_info, MemberEnds const& ends) {
  follower_info.node = with_ends(std::move(follower_info.node), ends);
  return FollowerCalled{agent, std::move(follower_info)};
}

}  // namespace

char const* name_of(Wanted::What what) {
  constexpr std::array kNames{"checkpoint", "restart", "drain", "stop"};
  return kNames.at(static_cast<std::size_t>(what));
}

std::string done_by(Wanted const& wanted) {
  constexpr std::array kDone{"asked for a checkpoint", "restarted", "drained", "stopped"};
  return std::string(kDone.at(static_cast<std::size_t>(wanted.what))) + " by " + wanted.by;
}

std::optional<Event> event_of_first(AgentId agent, ToCoordinator&& message, MemberEnds const& ends) {
  if (auto* const join = std::get_if<Join>(&message)) {
    return Joined{agent, with_ends(std::move(join->node), ends), join->job_end};
  }
  auto* const info = std::get_if<FollowerInfo>(&message);
  return info == nullptr ? std::nullopt : std::optional(follower_called(agent, std::move(*info), ends));
}

std::optional<Event> event_of_further(AgentId agent, ToCoordinator&& message, MemberEnds const& ends) {
  return std::visit(
      [&](auto& said) -> std::optional<Event> {
        using Message = std::decay_t<decltype(said)>;
        if constexpr (std::is_same_v<Message, FollowerInfo>) {
          return follower_called(agent, std::move(said), ends);
        } else if constexpr (std::is_same_v<Message, Join> || std::is_same_v<Message, Gone>) {
          return std::nullopt;
        } else {
          return Said{agent, std::move(said)};
        }
      },
      message);
}

}  // namespace cxxrun::rendezvous
