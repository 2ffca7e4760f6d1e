// Admission: who may use a store, and the other terms on which a store is opened. Pure.
//
// A connection is admitted when it belongs to the job's user on a host of the job. The kernel of the caller's host
// knows its owner: this host's kernel is asked at once, another host's through its agent. Until the answer the
// connection waits, and nothing is read from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "src/base/core/tcp_ends.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::store {

/// --store-access.
enum class StoreAccess {
  user,   ///< connections of the job's user from hosts of the job
  hosts,  ///< all connections from hosts of the job
  any,    ///< all connections
};

/// Who owns the caller's end of a connection, according to a host.
struct Owner {
  enum class Kind {
    ours,     ///< a process of the job's user
    other,    ///< a process of another user
    none,     ///< no process, or no longer
    unknown,  ///< this host cannot tell
  };
  Kind kind = Kind::none;
  std::uint32_t uid = 0;  ///< of `other`
  std::string why;        ///< of `unknown`
  bool operator==(Owner const&) const = default;
};

/// The owner of `asked`. `seen`: what the kernel of the caller's host has found for it. That may be a listener on the
/// same port, or the rest of a connection that has ended; those have no owner.
[[nodiscard]] Owner judge(TcpEnds const& asked, std::optional<SeenSocket> const& seen, std::uint32_t own);

/// A question to other hosts: who owns this connection?
struct CallerQuestion {
  std::uint64_t id = 0;
  TcpEnds ends;
  bool operator==(CallerQuestion const&) const = default;
};
/// How many hosts have been asked; each will answer. Comes before any OwnerFound.
struct HostsAsked {
  std::uint64_t id = 0;
  std::uint32_t hosts = 0;
};
struct OwnerFound {
  std::uint64_t id = 0;
  Owner owner;
  bool operator==(OwnerFound const&) const = default;
};
using CallerNews = std::variant<HostsAsked, OwnerFound>;

/// Why a connection is closed, as a line for the log; "": it is admitted.
using Refusal = std::string;
struct CallerVerdict {
  std::uint64_t id = 0;
  Refusal refused;
  bool operator==(CallerVerdict const&) const = default;
};

/// The decision, if this host can make it alone; nothing: the caller's host must be asked. `here`: this host's answer
/// about the caller, needed with StoreAccess::user only. `can_ask`: other hosts can be asked.
[[nodiscard]] std::optional<Refusal> decide_here(StoreAccess access, bool can_ask, TcpEnds const& ends,
                                                 Owner const& here, std::uint32_t own);
/// Refuses an admitted connection that ended before it was read: another user may own its port by now.
[[nodiscard]] Refusal refuse_ended(TcpEnds const& ends);

/// The connections of one store that wait for the answers of other hosts.
class WaitingCallers {
 public:
  static constexpr std::size_t kMost = 512;  ///< further callers wait in the kernel's queue
  static constexpr Millis kPatience{2000};   ///< for a host that does not answer

  explicit WaitingCallers(std::uint32_t own = 0) : own_(own) {}

  /// `id` must be higher than all before it.
  void add(CallerQuestion question, TimePoint now);
  /// The connection has ended.
  void remove(std::uint64_t id) { waiting_.erase(id); }
  /// Whether no more fit.
  [[nodiscard]] bool full() const { return waiting_.size() >= kMost; }
  /// The questions for callers that have come since the last call and still wait.
  [[nodiscard]] std::vector<CallerQuestion> take_questions();
  /// The verdict, once a host says `ours` or all hosts have answered.
  [[nodiscard]] std::optional<CallerVerdict> on_news(CallerNews const& news);
  /// Refuses the callers that have waited longer than kPatience.
  [[nodiscard]] std::vector<CallerVerdict> expire(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> due() const;

 private:
  struct Waiting {
    TcpEnds ends;
    TimePoint until;
    std::uint32_t answers = 0;   // still to come, once HostsAsked has been heard
    std::optional<Owner> owner;  // the most telling answer so far
  };
  std::uint32_t own_;
  std::map<std::uint64_t, Waiting> waiting_;
  std::vector<std::uint64_t> unasked_;
};

// What a store is opened with besides its port. All functions are called on the stores' thread.

/// Gets a line for the log: a connection was refused, or closed for what it sent, or descriptors ran out.
using StoreWarn = std::function<void(std::string const& line)>;

/// Gets each listening socket of a store before its port is published.
using StoreKeep = std::function<void(int listener)>;

/// Of one store. Beyond `held` the connection is closed with a reason; beyond `unsent` connections wait.
struct StoreLimits {
  std::uint64_t held = 1ULL << 30U;      ///< bytes of keys, values, WAITs and requests that have come in part
  std::uint64_t unsent = 256ULL << 20U;  ///< bytes of replies not sent yet; the reply that exceeds it is still kept
};

/// Who is admitted to a store.
struct StoreDoor {
  StoreAccess access = StoreAccess::any;
  /// Asks other hosts about their callers, and passes the answers to StoreServer::tell. Empty: there is no other host
  /// to ask.
  std::function<void(std::vector<CallerQuestion>)> ask;
};

}  // namespace cxxrun::store
