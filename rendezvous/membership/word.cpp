#include "rendezvous/membership/word.hpp"

#include <type_traits>
#include <utility>

namespace cxxrun::rendezvous {
namespace {

NodeInfo seen(NodeInfo node, MemberEnds const& ends) {
  node.coordinates = node.incarnation == ends.own;
  node.reached_at = ends.to;
  node.calls_from = ends.from;
  node.relayed = ends.relayed;
  return node;
}

Event follows(AgentId agent, FollowerInfo&& said, MemberEnds const& ends) {
  said.node = seen(std::move(said.node), ends);
  return FollowerCalled{agent, std::move(said)};
}

}  // namespace

std::optional<Event> first_word(AgentId agent, ToCoordinator&& message, MemberEnds const& ends) {
  if (auto* const join = std::get_if<Join>(&message)) {
    return Joined{agent, seen(std::move(join->node), ends)};
  }
  auto* const follower_info = std::get_if<FollowerInfo>(&message);
  return follower_info == nullptr ? std::nullopt : std::optional(follows(agent, std::move(*follower_info), ends));
}

std::optional<Event> further_word(AgentId agent, ToCoordinator&& message, MemberEnds const& ends) {
  return std::visit(
      [&](auto& said) -> std::optional<Event> {
        using Message = std::decay_t<decltype(said)>;
        if constexpr (std::is_same_v<Message, FollowerInfo>) {
          return follows(agent, std::move(said), ends);
        } else if constexpr (std::is_same_v<Message, Join> || std::is_same_v<Message, Gone>) {
          return std::nullopt;
        } else {
          return Said{agent, std::move(said)};
        }
      },
      message);
}

}  // namespace cxxrun::rendezvous
