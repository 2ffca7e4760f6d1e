// MemoryKeys: which keys have memory on this node, in one generation. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>

namespace cxxrun::launcher {

/// The first request for a key makes its memory; later ones get the same. Only the newest are kept: whoever comes for
/// one that was given up is refused, and never gets another one than its mates have. Ranks that split into pairs, all
/// at once, ask for one key for every two of them: as many as there are workers are kept at least.
class MemoryKeys {
 public:
  static constexpr std::size_t kKept = 16;
  static constexpr std::size_t kRemembered = 65536;

  explicit MemoryKeys(std::size_t workers = 0) : most_(std::max(kKept, workers)) {}

  struct Answer {
    enum class What : std::uint8_t { make, have, refuse } what = What::refuse;
    std::optional<std::uint64_t> drop;  ///< with make: the oldest, whose memory is given up
    std::string why;                    ///< with refuse
    bool operator==(Answer const&) const = default;
  };
  [[nodiscard]] Answer ask(std::uint64_t key) {
    Answer answer;
    if (std::find(kept_.begin(), kept_.end(), key) != kept_.end()) {
      answer.what = Answer::What::have;
    } else if (dropped_.contains(key)) {
      answer.why = "cxxrun keeps the memory of the newest " + std::to_string(most_) +
                   " communicators for ranks that come late, and this one is older";
    } else if (dropped_.size() == kRemembered) {
      answer.why = "more communicators were made in this generation than cxxrun remembers";
    } else {
      answer.what = Answer::What::make;
      kept_.push_back(key);
      if (kept_.size() > most_) {
        answer.drop = kept_.front();
        dropped_.insert(kept_.front());
        kept_.pop_front();
      }
    }
    return answer;
  }

 private:
  std::size_t most_;
  std::deque<std::uint64_t> kept_;  // oldest first
  std::set<std::uint64_t> dropped_;
};

}  // namespace cxxrun::launcher
