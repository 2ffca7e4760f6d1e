// Doors: at which of a host's addresses and ports an agent knocks next, and when. Pure.
//
// One after the other, again and again. The next door's turn comes at once when nobody is left to answer, and kStagger
// after the last one's while somebody is: whoever holds a port and says nothing costs that much. It is not left for the
// next one: a coordinator that is busy has its full time to answer. The first one that proves itself is joined.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

using Door = std::size_t;  ///< addresses × ports, in the order of their turns

struct Doors {
  static constexpr Millis kStagger{250};
  static constexpr Millis kConnectDeadline{3000};
  static constexpr Millis kHelloDeadline{5000};
  static constexpr Millis kFirstPause{2};
  static constexpr Millis kLongestPause{500};
  /// How long somebody else on the only port may be one that is just leaving.
  static constexpr Millis kWrongPeerPatience{10'000};
  /// The nodes of a step start within this time, as a rule; after it whoever waits is told.
  static constexpr Millis kToldAfter{3000};
  struct Knocked {
    TimePoint until;
    bool connected = false;
  };

  std::size_t count = 1;
  bool only_port = false;    ///< of every address
  bool once = false;         ///< each has one turn
  Millis patience{600'000};  ///< with `once`: of each door
  TimePoint give_up_at;      ///< no further turns then, but each has had one
  Door next = 0;
  TimePoint next_at;  ///< its turn
  Millis pause = kFirstPause;
  std::map<Door, Knocked> open;  ///< have not answered yet
  bool swept = false;            ///< each has had a turn
  bool over = false;             ///< none gets another one
  bool refused = true;           ///< by the host, since nobody listens: all that have failed
  std::optional<TimePoint> wrong_since;
};

enum class NoEntry {
  refused,  ///< nobody listens there
  silent,   ///< no connection came about
  wrong,    ///< somebody is there, but not who is looked for
};

struct Knock {
  Door door = 0;
  bool operator==(Knock const&) const = default;
};
/// Its time is over: it is to be closed.
struct Leave {
  Door door = 0;
  bool operator==(Leave const&) const = default;
};
struct GiveUp {
  bool wrong = false;  ///< somebody else has the only port
  bool operator==(GiveUp const&) const = default;
};
using DoorAct = std::variant<std::monostate, Knock, Leave, GiveUp>;

/// What is to be done now; asked again until there is nothing.
[[nodiscard]] DoorAct next_act(Doors& doors, TimePoint now);
/// When it is to be asked again, unless something happens before.
[[nodiscard]] std::optional<TimePoint> due(Doors const& doors);
/// There are some more, whose turn it is at once.
void add(Doors& doors, std::size_t some, TimePoint now);
/// A connection stands: who is there has kHelloDeadline for its proof.
void connected(Doors& doors, Door door, TimePoint now);
/// It has been closed.
void failed(Doors& doors, Door door, NoEntry how, TimePoint now);

/// Time to say that nobody was found yet, so that a mistake is not waited for as long as a node.
[[nodiscard]] bool is_long(Doors const& doors, TimePoint now);

/// Remedies when somebody else has the port: a stranger, or another job.
inline constexpr char const* kOtherPort = "choose another port with --rdzv-endpoint";
inline constexpr char const* kOneId =
    "give all agents of one job the same --rdzv-id, and each job a port of its own with --rdzv-endpoint";
/// Nobody was there in all the time: `trouble` is what went wrong last.
[[nodiscard]] std::string nobody_line(Doors const& doors, std::string const& where, std::string const& trouble);

}  // namespace cxxrun::rendezvous
