// What a worker asks its agent about one connection of a rail, and what it hears. Pure.
//
// Where the agents of a job share a key, both ends of each connection prove who they are: the caller first, then who
// was called. libcxxrun has no cryptography; an agent makes the proof of its worker and looks at that of the other end
// (docs/design/trust.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/base/wire/rail_protocol.hpp"

namespace cxxrun::wire {

/// Goes over the connection behind the greetings.
inline constexpr std::size_t kRailProof = 16;

enum class RailSide : std::uint8_t { caller, called };

struct RailClaim {
  RailSide side = RailSide::caller;  ///< of the worker that asks
  RailGreeting call;                 ///< what the caller has said
  RailGreeting answer;               ///< and who was called
  std::string theirs;                ///< the other side's proof; "": none has come yet
  bool operator==(RailClaim const&) const = default;
};

struct RailVerdict {
  enum class What : std::uint8_t {
    right,    ///< `own` is to be sent, unless it has been
    wrong,    ///< `theirs` is no proof
    relayed,  ///< somebody between the two passes the connection on
  };
  What what = What::wrong;
  std::string own;  ///< this side's proof; else ""
  bool operator==(RailVerdict const&) const = default;
};

/// What a relay is known by, and what to do where it is meant to be there.
[[nodiscard]] std::string relay_text(RailGreeting const& call, RailGreeting const& answer);

}  // namespace cxxrun::wire
