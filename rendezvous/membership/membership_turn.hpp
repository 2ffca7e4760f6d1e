// Turn: one call of membership's step in progress. Next: what follows from what a part has done.
//
// The parts change the state, but not its phase: they return what follows, and membership.cpp begins it. So no part
// calls another that may call it back. StoppingLate and Deposed depend on the phase before, so their `begin` sets the
// phase itself.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "rendezvous/membership/events.hpp"
#include "rendezvous/membership/state.hpp"
#include "rendezvous/values/story.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::rendezvous {

struct Turn : BasicTurn<State, Action, Policy> {
  std::vector<story::Event>& story;

  void tell(story::What what) { story.push_back({age(state.ledger, now), std::move(what)}); }
  void tell(std::vector<story::Stretch> stretches) {
    for (auto& each : stretches) {
      tell(story::What(each));
    }
  }
};

/// What may follow. begin(turn, next::…) of each is in
///   election.cpp  Standby, Electing
///   forming.cpp   Forming, FormingAgain
///   starting.cpp  Opening, Preparing, Proposing, Decided, LeaseWait, Running
///   ending.cpp    Stopping, StoppingLate, Stopped, Finished
///   leases.cpp    Deposed
namespace next {

struct Standby {  ///< no longer a candidate
  std::string why;
};
struct Electing {  ///< asks for promises of this ballot
  Ballot ballot;
};
struct Forming {};
struct Opening {};
struct Preparing {
  StoreOpened store;
};
struct Proposing {};
struct LeaseWait {};
struct Running {};
struct Stopping {
  StopReason reason;
};
struct Finished {
  Verdict verdict;
};
struct Deposed {
  std::string why;
};
struct Stay {};
struct FormingAgain {};  ///< the generation being prepared cannot run, decided or not
struct Decided {};       ///< the proposal has its votes, or needs none
struct StoppingLate {    ///< a member that called late has to stop, too
  AgentId agent = 0;
};
struct Stopped {};  ///< all members have stopped

}  // namespace next

/// First the alternatives that begin a phase, in the order of Phase.
using Next = std::variant<next::Standby, next::Electing, next::Forming, next::Opening, next::Preparing, next::Proposing,
                          next::LeaseWait, next::Running, next::Stopping, next::Finished, next::Deposed, next::Stay,
                          next::FormingAgain, next::Decided, next::StoppingLate, next::Stopped>;
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(Phase::running), Next>, next::Running>);
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<std::size_t>(Phase::deposed), Next>, next::Deposed>);

// NOLINTNEXTLINE(readability-identifier-naming): a word, as in `return stay;`
inline constexpr next::Stay stay{};

}  // namespace cxxrun::rendezvous
