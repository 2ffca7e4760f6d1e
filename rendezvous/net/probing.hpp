// Probing: where an agent looks for its coordinator (CallPlan), and which address and port it tries when. Pure.
//
// The candidates are tried one after the other, again and again. The next one is tried at once if no open attempt is
// left, else kStagger after the last one, so that a stranger that holds a port and says nothing costs only that much.
// Open attempts are kept: a busy coordinator has its full time to answer. The first one that proves itself is joined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/protocol/messages.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::rendezvous {

class KeyRing;

/// Where an agent calls, and as whom.
struct CallPlan {
  std::vector<std::string> addresses;  ///< names or IP literals, usually of one host
  std::vector<std::uint16_t> ports;    ///< tried in order, repeatedly until `patience` is over
  std::string coordinator;             ///< nonce of the only coordinator that will do; "" = any that has the run
  std::string run_id;
  std::string step;  ///< the run's other name (run_table.hpp), used if `run_id` is not known there; "" = none
  Hello::Asks asks = Hello::Asks::meet;  ///< follow: the link sends only the hello, its owner sends FollowerInfo
  NodeInfo node;                         ///< node.incarnation is the nonce of the hello
  std::optional<Terms> terms;
  std::optional<JobEnd> job_end;  ///< as far as this agent knows
  Millis patience{600'000};
  /// Tries each address and port once, for successors, since others can be called instead. `failed` comes at once if
  /// nothing listens, and after `patience` if nothing answers.
  bool once = false;
  std::string local_addr;         ///< --local-addr
  std::shared_ptr<KeyRing> keys;  ///< how both ends prove themselves; null: --auth none
};

/// Index of an address and port, in the order in which they are tried.
using Candidate = std::size_t;

struct Probing {
  static constexpr Millis kStagger{250};
  static constexpr Millis kConnectDeadline{3000};
  static constexpr Millis kHelloDeadline{5000};
  static constexpr Millis kFirstPause{2};
  static constexpr Millis kLongestPause{500};
  /// How long another program on the only port is tolerated: it may be about to leave.
  static constexpr Millis kWrongPeerPatience{10'000};
  /// The nodes of a step usually start within this time; later the user is told that the agent still waits.
  static constexpr Millis kToldAfter{3000};
  struct Attempt {
    TimePoint until;
    bool connected = false;
  };

  std::size_t count = 1;     ///< number of candidates
  bool only_port = false;    ///< all candidates have the same port
  bool once = false;         ///< each is tried once
  Millis patience{600'000};  ///< with `once`: for each candidate
  TimePoint give_up_at;      ///< no further tries then, but each candidate gets one
  Candidate next = 0;
  TimePoint next_at;  ///< when `next` is tried
  Millis pause = kFirstPause;
  std::map<Candidate, Attempt> open;  ///< without an answer yet
  bool swept = false;                 ///< each candidate was tried
  bool over = false;                  ///< nothing is tried any more
  bool refused = true;                ///< every failed attempt was refused by the host: nothing listens
  std::optional<TimePoint> wrong_since;
};

enum class ProbeFailure {
  refused,  ///< nothing listens there
  silent,   ///< no connection was established
  wrong,    ///< something answers, but not the coordinator
};

struct Probe {
  Candidate candidate = 0;
  bool operator==(Probe const&) const = default;
};
/// Close this attempt: its time is over.
struct Drop {
  Candidate candidate = 0;
  bool operator==(Drop const&) const = default;
};
struct GiveUp {
  bool wrong = false;  ///< another program has the only port
  bool operator==(GiveUp const&) const = default;
};
using ProbeAction = std::variant<std::monostate, Probe, Drop, GiveUp>;

/// What to do now. Call it again until it returns monostate.
[[nodiscard]] ProbeAction next_action(Probing& probing, TimePoint now);
/// When to call next_action() again, unless something happens before.
[[nodiscard]] std::optional<TimePoint> due(Probing const& probing);
/// Adds candidates, which are tried at once.
void add(Probing& probing, std::size_t candidates, TimePoint now);
/// The attempt is connected: the peer has kHelloDeadline to prove itself.
void connected(Probing& probing, Candidate candidate, TimePoint now);
/// The attempt is closed.
void failed(Probing& probing, Candidate candidate, ProbeFailure how, TimePoint now);

/// Whether to tell the user that no coordinator was found yet, so that a mistake shows before `patience` is over.
[[nodiscard]] bool is_long(Probing const& probing, TimePoint now);

/// Remedies if another program or another job has the port.
inline constexpr char const* kOtherPort = "choose another port with --rdzv-endpoint";
inline constexpr char const* kOneId =
    "give all agents of one job the same --rdzv-id, and each job a port of its own with --rdzv-endpoint";
/// The error after GiveUp: no coordinator was found. `trouble`: the last failure.
[[nodiscard]] std::string not_found_line(Probing const& probing, std::string const& where, std::string const& trouble);

}  // namespace cxxrun::rendezvous
