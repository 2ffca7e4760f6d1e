// Admission: who may use a store. Pure.
//
// A connection is let in when it belongs to the job's user on a host of the job. The kernel of the caller's host knows:
// this host is asked at once, others through their agents, while the connection waits unread.
#pragma once

#include <cstddef>
#include <cstdint>
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
  user,   ///< what the job's user has connected on a host of the job
  hosts,  ///< whatever comes from a host of the job
  any,
};

/// What a host says of the caller's end of a connection.
struct Owner {
  enum class Kind {
    ours,     ///< a process of the own user has it
    other,    ///< a process of another one
    none,     ///< nobody, or not any more
    unknown,  ///< this host cannot tell
  };
  Kind kind = Kind::none;
  std::uint32_t uid = 0;  ///< of `other`
  std::string why;        ///< of `unknown`
  bool operator==(Owner const&) const = default;
};

/// `seen`: what the kernel of the caller's host has answered about `asked`. It may be a listener on the same port, or
/// what is left of a connection that has ended: those have no owner.
[[nodiscard]] Owner judge(TcpEnds const& asked, std::optional<SeenSocket> const& seen, std::uint32_t own);

/// Whose is this connection?
struct CallerQuestion {
  std::uint64_t id = 0;
  TcpEnds ends;
  bool operator==(CallerQuestion const&) const = default;
};
/// So many hosts have been asked, and each answers. Comes before any OwnerFound.
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

/// What is to be done with a connection: closed with this line, or let in when there is none.
using Refusal = std::string;
struct CallerVerdict {
  std::uint64_t id = 0;
  Refusal refused;
  bool operator==(CallerVerdict const&) const = default;
};

/// What this host alone can decide; nothing: the caller's own has to be asked. `here`: what this one says of the
/// caller, with --store-access user. `can_ask`: there is somebody to ask.
[[nodiscard]] std::optional<Refusal> decide_here(StoreAccess access, bool can_ask, TcpEnds const& ends,
                                                 Owner const& here, std::uint32_t own);
/// It was right, and has ended meanwhile: its port may be somebody else's by now.
[[nodiscard]] Refusal ended(TcpEnds const& ends);

/// The connections of one store whose hosts have been asked.
class WaitingCallers {
 public:
  static constexpr std::size_t kMost = 512;  ///< beyond, callers wait in the kernel's queue
  static constexpr Millis kPatience{2000};   ///< with a host that does not answer

  explicit WaitingCallers(std::uint32_t own = 0) : own_(own) {}

  /// `id`: higher than those before it.
  void come(CallerQuestion question, TimePoint now);
  /// Its connection has ended.
  void leave(std::uint64_t id) { waiting_.erase(id); }
  /// Whether no more may come.
  [[nodiscard]] bool full() const { return waiting_.size() >= kMost; }
  /// Those of the callers that have come since the last time and are still there.
  [[nodiscard]] std::vector<CallerQuestion> take_questions();
  /// What follows; nothing while others may know more. The first host that has it for ours decides.
  [[nodiscard]] std::optional<CallerVerdict> hear(CallerNews const& news);
  /// Who has waited for too long.
  [[nodiscard]] std::vector<CallerVerdict> expire(TimePoint now);
  [[nodiscard]] std::optional<TimePoint> due() const;

 private:
  struct Waiting {
    TcpEnds ends;
    TimePoint until;
    std::uint32_t answers = 0;   // still to come, once it is known how many were asked
    std::optional<Owner> owner;  // what says most of the answers so far
  };
  std::uint32_t own_;
  std::map<std::uint64_t, Waiting> waiting_;
  std::vector<std::uint64_t> unasked_;
};

}  // namespace cxxrun::store
