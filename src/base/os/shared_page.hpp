// SharedPage: what an agent leaves with its parent: the lease of its workers, and its death notice. Shell.
//
// One page of shared memory, made before the fork, without pointers. The agent writes and the parent reads, even when
// the agent is stopped or was killed in the middle of a write. So the notice has two places, and the number of a place
// says which one is valid.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/types.h>
#include <vector>

#include "cxxrun/error.hpp"
#include "src/base/core/lease_guard.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/system.hpp"

namespace cxxrun::os {

/// A recipient of the death notice: a literal address, with "%interface" if it needs one.
struct Recipient {
  std::string address;
  std::uint16_t port = 0;
};

struct DeathNotice {
  std::vector<sockaddr_storage> recipients;
  std::string words;  ///< the bytes to send to each
};

/// The sender of a signal.
struct Sender {
  pid_t pid = 0;
  std::uint32_t uid = 0;
  std::string name;  ///< of its program, at most 15 bytes; "" when it had ended
  bool operator==(Sender const&) const = default;
};

class SharedPage {
 public:
  /// The most recipients, and the longest words.
  static constexpr std::size_t kMaxRecipients = 9;
  static constexpr std::size_t kMaxWords = 1536;

  /// Errc::io when the system lacks memory or a descriptor.
  [[nodiscard]] static Result<SharedPage> make();

  // ---- the agent ----
  void set_terms(LeaseGuardTerms const& terms);
  /// Sets the end of the lease. Rings the parent if it would otherwise not look in time.
  void hold_lease(std::optional<TimePoint> until);
  /// The agent has frozen its workers itself: the parent must not thaw them when a new lease comes.
  void set_frozen(bool yes) { layout_->frozen.store(yes ? 1 : 0); }
  /// How often the parent has killed this node's workers.
  [[nodiscard]] std::uint32_t kills() const { return layout_->kills.load(); }
  /// The sender of the last signal that the parent has passed on.
  [[nodiscard]] Sender sender() const;
  /// Replaces the death notice. Recipients whose address is no literal are left out. Without words, or with too long
  /// ones, there is no notice.
  void write_death_notice(std::vector<Recipient> const& recipients, std::string const& words);

  // ---- the parent ----
  [[nodiscard]] LeaseGuardTerms terms() const {
    return {Millis{layout_->lease_ms.load()}, Millis{layout_->timeout_ms.load()}};
  }
  [[nodiscard]] std::optional<TimePoint> lease() const;
  [[nodiscard]] bool frozen() const { return layout_->frozen.load() != 0; }
  [[nodiscard]] std::optional<DeathNotice> death_notice() const;
  /// Readable after a ring, until answer().
  [[nodiscard]] int bell() const { return bell_.get(); }
  void answer() const;
  /// Notes the sender of the signal that the parent is about to pass on.
  void note_sender(Sender const& sender) const;
  /// Notes that the parent is about to kill this node's workers, because their lease has run out.
  void count_kill() const { layout_->kills.fetch_add(1); }

 private:
  struct Layout {
    static constexpr std::int64_t kNone = 0;
    struct Place {
      std::uint32_t recipients = 0;
      std::uint32_t size = 0;
      std::array<sockaddr_storage, kMaxRecipients> to{};
      std::array<char, kMaxWords> words{};
    };
    std::atomic<std::int64_t> until{kNone};  // nanoseconds of Clock
    std::atomic<std::int64_t> lease_ms{0};
    std::atomic<std::int64_t> timeout_ms{0};
    std::atomic<std::uint64_t> sender{0};  // pid and uid; written after the name
    std::array<std::atomic<std::uint64_t>, 2> sender_name{};
    std::atomic<std::uint32_t> frozen{0};
    std::atomic<std::uint32_t> kills{0};
    std::atomic<std::uint32_t> valid{0};  // 0: no notice; else 1 + the place that holds it
    std::array<Place, 2> places;
    static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free,
                  "shared between processes, and a killed one releases no lock");
  };
  SharedPage(Layout* layout, Unmap unmap, UniqueFd bell) : layout_(layout, unmap), bell_(std::move(bell)) {}
  std::unique_ptr<Layout, Unmap> layout_;
  UniqueFd bell_;
};

/// Connects to all recipients at once and sends each the words. Blocks until all have closed, at most for `limit`.
void deliver(DeathNotice const& death_notice, Millis limit);

}  // namespace cxxrun::os
