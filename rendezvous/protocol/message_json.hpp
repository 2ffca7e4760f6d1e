// JSON, and the names of the enumerations in it. Private to messages_read.cpp and messages_write.cpp.
#pragma once

#include <array>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "rendezvous/protocol/messages.hpp"

namespace cxxrun::rendezvous {

using Json = nlohmann::json;

template <class T>
concept Enumeration = std::is_enum_v<T>;

constexpr auto names(StopKind) {
  return std::array{std::pair{StopKind::failure, "failure"}, std::pair{StopKind::resize, "resize"},
                    std::pair{StopKind::user, "user"}};
}
constexpr auto names(ExitStatus::Kind) {
  using Kind = ExitStatus::Kind;
  return std::array{std::pair{Kind::exited, "exited"}, std::pair{Kind::signalled, "signalled"},
                    std::pair{Kind::not_started, "not_started"}};
}
constexpr auto names(HelloReply::Why) {
  using Why = HelloReply::Why;
  return std::array{std::pair{Why::accepted, "accepted"}, std::pair{Why::other_job, "other_job"},
                    std::pair{Why::other_version, "other_version"}};
}
constexpr auto names(Hello::Asks) {
  using Asks = Hello::Asks;
  return std::array{std::pair{Asks::meet, "meet"}, std::pair{Asks::open, "open"}, std::pair{Asks::reopen, "reopen"},
                    std::pair{Asks::enter, "enter"}, std::pair{Asks::follow, "follow"}};
}
constexpr auto names(Hello::Purpose) {
  using Purpose = Hello::Purpose;
  return std::array{std::pair{Purpose::agent, "agent"}, std::pair{Purpose::beat, "beat"},
                    std::pair{Purpose::death_notice, "death_notice"}};
}
constexpr auto names(Tie) {
  return std::array{std::pair{Tie::rank, "rank"}, std::pair{Tie::fence, "fence"}, std::pair{Tie::none, "none"}};
}

}  // namespace cxxrun::rendezvous
