// SharedPage: what an agent leaves with its parent: until when workers may run, and its death notice.
//
// One page of shared memory, made before the fork; nothing in it is a pointer. The agent writes, the parent reads, also
// when the agent is stopped or was killed in the middle of a write: the notice has two places, and only the number of
// the place says which one is valid.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/core/lease_guard.hpp"
#include "src/core/time.hpp"
#include "src/os/fd.hpp"

namespace cxxrun::os {

/// Whom the death notice is for: a literal address, with "%interface" where it needs one.
struct Recipient {
  std::string address;
  std::uint16_t port = 0;
};

struct DeathNotice {
  std::vector<sockaddr_storage> recipients;
  std::string words;  ///< the bytes to send to each
};

class SharedPage {
 public:
  /// No more recipients and no longer words than this.
  static constexpr std::size_t kMaxRecipients = 9;
  static constexpr std::size_t kMaxWords = 1536;

  /// Errc::io when the system lacks memory or a descriptor.
  [[nodiscard]] static Result<SharedPage> make();
  SharedPage(SharedPage const&) = delete;
  SharedPage& operator=(SharedPage const&) = delete;
  SharedPage(SharedPage&& other) noexcept;
  SharedPage& operator=(SharedPage&&) = delete;
  ~SharedPage();

  // ---- the agent ----
  void set_terms(LeaseGuardTerms const& terms);
  /// Rings the parent when it could not know of the lease otherwise.
  void hold_lease(std::optional<TimePoint> until);
  /// The agent has frozen its workers itself: a lease that reaches further is then no reason to thaw them.
  void set_frozen(bool yes);
  /// Replaces the death notice. Recipients whose address is no literal are left out; too long words, or none: no
  /// notice.
  void write_death_notice(std::vector<Recipient> const& recipients, std::string const& words);

  // ---- the parent ----
  [[nodiscard]] LeaseGuardTerms terms() const;
  [[nodiscard]] std::optional<TimePoint> lease() const;
  [[nodiscard]] bool frozen() const;
  [[nodiscard]] std::optional<DeathNotice> death_notice() const;
  /// Readable after a ring; `answer` makes it silent again.
  [[nodiscard]] int bell() const { return bell_.get(); }
  void answer() const;

 private:
  struct Layout;
  SharedPage(Layout* layout, UniqueFd bell) : layout_(layout), bell_(std::move(bell)) {}
  Layout* layout_ = nullptr;
  UniqueFd bell_;
};

/// Connects to all recipients at once and sends each the words; blocks until each has hung up, no longer than `limit`.
void deliver(DeathNotice const& death_notice, Millis limit);

}  // namespace cxxrun::os
