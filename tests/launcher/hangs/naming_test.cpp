// Random generations in which ranks give each other up: the coordinator's core (blame) and the agents' (named_fate)
// in virtual time. Whoever is ended was named and missing, nobody else is, and every generation ends.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "launcher/hangs/progress_watch.hpp"
#include "rendezvous/hangs/blame.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/sanitized.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;    // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using namespace std::chrono_literals;
using Why = PeerFailure::Why;

namespace {

constexpr Millis kTimeout{4000};
constexpr std::size_t kGenerations = cxxrun::test::kSanitized ? 2'000 : 50'000;

/// What a rank does. All but the one at the root wait for another, from some instant on; before, they compute.
struct Rank {
  enum class Does { trains, computes, sleeps, halted } does = Does::trains;  ///< but for `trains`: for ever
  Millis waits_from{0};
  std::optional<Millis> comes = {};  ///< the root that is only late: then it sees that it is given up
  std::uint32_t target = 0;
  bool survives = true;
  bool spoke = false;  ///< parked, or ended with a failure
  bool killed = false;
  std::optional<Millis> named = {};
  std::optional<Millis> heard = {};

  [[nodiscard]] bool waits(Millis now) const {
    return does == Does::sleeps || does == Does::halted || (does == Does::trains && now >= waits_from);
  }
};

class Generation {
 public:
  explicit Generation(std::uint64_t seed) : random_(seed), seed_(seed) {
    auto const world = pick(2, 8);
    ranks_.resize(static_cast<std::size_t>(world));
    for (std::uint32_t rank = 1; rank < ranks_.size(); ++rank) {
      auto& self = ranks_[rank];
      self.target = chance(50) ? 0 : static_cast<std::uint32_t>(pick(0, rank - 1));
      self.waits_from = Millis(chance(60) ? pick(0, 20) : pick(0, 3900));
      self.survives = chance(90);
      at(self.waits_from + kTimeout, [this, rank] { give_up(rank, true); });
    }
    draw_root();
  }

  /// "" or what does not hold.
  std::string run() {
    while (broken_.empty() && !stopped_) {
      if (events_.empty() || events_.begin()->first > 30s) {
        return "seed " + std::to_string(seed_) + ": nobody ends the generation";
      }
      auto const next = events_.begin();
      now_ = next->first;
      auto const happens = std::move(next->second);
      events_.erase(next);
      happens();
    }
    return broken_.empty() ? "" : "seed " + std::to_string(seed_) + ": " + broken_;
  }
  [[nodiscard]] bool ended_somebody() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](Rank const& rank) { return rank.killed; });
  }

 private:
  std::int64_t pick(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random_);
  }
  bool chance(int percent) { return pick(1, 100) <= percent; }
  void at(Millis when, std::function<void()> what) { events_.emplace(when, std::move(what)); }
  void soon(std::function<void()> what) { at(now_ + Millis(pick(1, 60)), std::move(what)); }

  void draw_root() {
    Rank& root = ranks_[0];
    switch (pick(0, 4)) {
      case 0: root.does = Rank::Does::computes; break;
      case 1: root.does = Rank::Does::halted; break;
      case 2:  // a circle: it waits for one of those that wait for it
        root.target = static_cast<std::uint32_t>(pick(1, static_cast<std::int64_t>(ranks_.size()) - 1));
        root.waits_from = Millis(pick(0, 3900));
        at(root.waits_from + kTimeout, [this] { give_up(0, true); });
        break;
      case 3:  // late, by hardly anything perhaps
        root.does = Rank::Does::computes;
        root.comes = kTimeout + Millis(pick(-200, 1500));
        at(*root.comes, [this] {
          ranks_[0].does = Rank::Does::trains;
          ranks_[0].waits_from = now_;
          ranks_[0].target = static_cast<std::uint32_t>(pick(1, static_cast<std::int64_t>(ranks_.size()) - 1));
          auto const finds = now_ + (ranks_[ranks_[0].target].spoke ? Millis(1) : kTimeout);
          at(finds, [this] { give_up(0, true); });
        });
        break;
      default: root.does = Rank::Does::sleeps; break;
    }
  }

  /// Its wait ends: it parks, or ends.
  void give_up(std::uint32_t rank, bool names) {
    Rank& self = ranks_[rank];
    if (self.spoke || self.killed) {
      return;
    }
    self.spoke = true;
    auto const lost = names ? worker::Loss{self.target, Why::timeout} : worker::kNamesNobody;
    soon([this, rank, lost, ended = !self.survives && names] {
      said_.insert(lost.rank);
      add_report(state_, {rank, lost}, ended, world(), time());
      consider();
    });
  }
  [[nodiscard]] std::uint32_t world() const { return static_cast<std::uint32_t>(ranks_.size()); }
  [[nodiscard]] TimePoint time() const { return TimePoint{} + 1h + now_; }

  void consider() {
    auto const judged = judge_blame(state_, world(), time());
    stopped_ = stopped_ || judged.stop || judged.most_blamed;
    for (auto const& order : judged.orders) {
      if (!said_.contains(order.rank)) {
        broken_ = "rank " + std::to_string(order.rank) + " is to be ended, and nobody has named it";
      }
      soon([this, rank = order.rank, named = order.reason] { look_at(rank, named); });
    }
    if (state_.due) {
      at(std::chrono::duration_cast<Millis>(*state_.due - time()) + now_, [this] { consider(); });
    }
  }

  /// Its agent does.
  void look_at(std::uint32_t rank, Why named) {
    Rank& self = ranks_[rank];
    NamedWorker seen{
        .runs = !self.spoke && !self.killed, .waits = self.waits(now_), .halted = self.does == Rank::Does::halted};
    if (self.named) {
      seen.since = now_ - *self.named;
      seen.heard = self.heard && *self.heard <= now_ ? std::optional(now_ - *self.heard) : std::nullopt;
      seen.moved = self.comes && *self.comes > *self.named && *self.comes <= now_;
    }
    switch (fate_of(named, seen)) {
      case NamedFate::nothing:
      case NamedFate::failed: return;
      case NamedFate::killed: return kill(rank);
      case NamedFate::asked: ask(rank); break;
      case NamedFate::patience: break;
    }
    self.named = self.named.value_or(now_);
    at(now_ + kNamedLook, [this, rank, named] { look_at(rank, named); });
  }

  void ask(std::uint32_t rank) {
    Rank& self = ranks_[rank];
    self.heard = now_ + Millis(pick(0, chance(90) ? 5 : 1500));  // a busy machine
    if (self.does == Rank::Does::trains) {
      at(*self.heard + Millis(pick(1, 100)),
         [this, rank] { give_up(rank, now_ - ranks_[rank].waits_from >= kTimeout / 2); });
    }
  }

  void kill(std::uint32_t rank) {
    Rank& self = ranks_[rank];
    self.killed = true;
    bool const missing = !self.waits(now_) && now_ >= kTimeout / 2;
    if (self.does != Rank::Does::sleeps && self.does != Rank::Does::halted && !missing) {
      broken_ = "rank " + std::to_string(rank) + " is ended although it waits itself";
    }
    soon([this] { stopped_ = true; });
  }

  std::mt19937_64 random_;
  std::uint64_t seed_;
  std::vector<Rank> ranks_;
  std::multimap<Millis, std::function<void()>> events_;
  Millis now_{0};
  BlameState state_;
  std::set<std::uint32_t> said_;
  bool stopped_ = false;
  std::string broken_;
};

}  // namespace

TEST_CASE("naming: who is ended was named and is missing, nobody else is, and every generation ends", "[unit]") {
  std::size_t ended = 0;
  for (std::uint64_t seed = 1; seed <= kGenerations; ++seed) {
    Generation generation(seed);
    auto const broken = generation.run();
    INFO(broken);
    REQUIRE(broken.empty());
    ended += generation.ended_somebody() ? 1 : 0;
  }
  CHECK(ended > kGenerations / 4);  // the others end in place
  CHECK(ended < kGenerations * 9 / 10);
}
