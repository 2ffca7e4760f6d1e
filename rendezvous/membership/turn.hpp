// Turn: one call of membership's step in progress. Next: what follows from what its parts have done.
//
// The parts change the state, except its phase: they return the phase that is to begin, and transitions.cpp, which
// alone writes it, begins it. So no part calls one that may call it back.
#pragma once

#include <string>
#include <variant>

#include "rendezvous/membership/events.hpp"
#include "rendezvous/membership/state.hpp"
#include "src/core/turn.hpp"

namespace cxxrun::rendezvous {

using Turn = BasicTurn<State, Action, Policy>;

namespace next {

struct Stay {};
struct Electing {  ///< asks for promises of this ballot
  Ballot ballot;
};
struct Standby {  ///< no candidate any more
  std::string why;
};
struct Forming {};
struct FormingAgain {};  ///< what was being made, decided already or not, cannot run
struct Opening {};
struct Preparing {
  StoreOpened store;
};
struct Proposing {};
struct Decided {};  ///< the proposal has its votes, or needs none
struct LeaseWait {};
struct Running {};
struct Stopping {
  StopReason reason;
};
struct StoppingLate {  ///< one more member than were known is to stop
  AgentId agent = 0;
};
struct Stopped {};  ///< all members have
struct Finished {
  Verdict verdict;
};
struct Deposed {
  std::string why;
};

}  // namespace next

using Next = std::variant<next::Stay, next::Electing, next::Standby, next::Forming, next::FormingAgain, next::Opening,
                          next::Preparing, next::Proposing, next::Decided, next::LeaseWait, next::Running,
                          next::Stopping, next::StoppingLate, next::Stopped, next::Finished, next::Deposed>;

// NOLINTNEXTLINE(readability-identifier-naming): a word, as in `return stay;`
inline constexpr next::Stay stay{};

}  // namespace cxxrun::rendezvous
