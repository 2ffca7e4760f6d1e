// Fuzzes the coordinator's state machine: any messages, losses and times in any order. It never throws and never asks
// for what must not be, whoever lies to it.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/membership/membership.hpp"
#include "src/base/wire/frame.hpp"
#include "tests/fuzz/script.hpp"
#include "tests/support/said.hpp"

namespace {

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using fuzz::require;

class Play {
 public:
  explicit Play(fuzz::Script script) : script_(script) {
    policy_.min_nodes = 1 + script_.below(3);
    policy_.max_nodes = policy_.min_nodes + script_.below(3);
    if (script_.flip()) {
      policy_.expected_nodes = policy_.max_nodes;
    }
    policy_.max_restarts = script_.below(3);
    policy_.heartbeat_timeout = Millis(script_.below(3) * 1000);
    policy_.tie = static_cast<Tie>(script_.below(3));
    policy_.ends_when_empty = script_.flip();
    policy_.scale_out_now = script_.flip();
    now_ += Millis(1'000'000);  // a machine that has been up for a while
  }

  void run() {
    feed(Opened{});
    while (!script_.over() && !closed_) {
      turn();
    }
  }

 private:
  void turn() {
    AgentId const agent = 1 + script_.below(8);
    switch (script_.below(16)) {
      case 0:
      case 1: feed(Joined{++last_, fuzz::some_node(script_)}); break;
      case 2: feed(Lost{agent, "end of file", Ended::in_order}); break;
      case 3:
        now_ += Millis(script_.below(200) * 50);
        feed(Tick{});
        break;
      case 4: tick_when_armed(); break;
      case 5: feed(StoreOpened{script_.near(state_.number), 2000, 2000}); break;
      case 6: feed(Beaten{agent, fuzz::some_beat(script_, hints())}); break;
      case 7: feed(BeatsEnded{agent}); break;
      case 8: election(); break;
      case 9: feed(StoreFailed{script_.near(state_.number), "why"}); break;
      case 10: all_say(); break;
      default: says(agent, fuzz::some_to_coordinator(script_, hints()));
    }
  }

  void election() {
    switch (script_.below(7)) {
      case 0:
        feed(Campaign{fuzz::some_decree(script_, hints()), {script_.below(4), script_.below(4)}, state_.number, {}});
        break;
      case 1: feed(Withdraw{"why"}); break;
      case 2: feed(Fenced{state_.proposer.decided.number, std::nullopt, "why"}); break;
      case 3:
        feed(Fenced{script_.near(state_.proposer.decided.number),
                    AcceptedDecree{{script_.below(4), 0}, fuzz::some_decree(script_, hints())}, ""});
        break;
      case 4: feed(Learned{fuzz::some_decree(script_, hints()), {}}); break;
      case 5:
        feed(Wanted{static_cast<Wanted::What>(script_.below(4)), script_.near(state_.number), "uid 0",
                    "n" + std::to_string(script_.below(4))});
        break;
      default: feed(Quit{15});
    }
  }

  /// What a job does when all is well: without it few plays would come far.
  void all_say() {
    std::uint32_t const what = script_.below(4);
    std::uint64_t const number = state_.number;
    for (auto const& [agent, node] : std::map(state_.roster.present)) {
      switch (what) {
        case 0: feed(Said{agent, Ack{number, 0, 0}}); break;
        case 1: feed(Said{agent, Succeeded{number}}); break;
        case 2: feed(Said{agent, Stopped{number, {}, {}, {}, script_.below(4) == 0}}); break;
        default:
          feed(Said{agent, Accepted{state_.proposer.decided.number, state_.proposer.ballot, state_.proposer.ballot}});
      }
    }
  }

  void says(AgentId agent, ToCoordinator message) {
    std::visit(
        [&](auto& concrete) {
          using Message = std::decay_t<decltype(concrete)>;
          if constexpr (std::is_same_v<Message, FollowerInfo>) {
            feed(FollowerCalled{agent, std::move(concrete)});
          } else if constexpr (std::is_same_v<Message, Gone>) {
            feed(ConfirmedDead{concrete});
          } else if constexpr (!std::is_same_v<Message, Join>) {
            feed(Said{agent, std::move(concrete)});
          }
        },
        message);
  }

  void tick_when_armed() {
    if (armed_) {
      now_ = std::max(now_, *armed_);
      feed(Tick{});
    }
  }

  [[nodiscard]] fuzz::Hints hints() const {
    return {state_.number, state_.proposer.decided.number, static_cast<std::uint32_t>(state_.group.seats.size()),
            state_.proposer.ballot};
  }

  void feed(Event const& event) {
    if (closed_) {
      return;
    }
    std::uint64_t const number = state_.number;
    std::uint32_t const restarts = state_.restarts.consumed;
    std::size_t const known = state_.roster.present.size() + state_.roster.excluded.size() + state_.group.seats.size();
    Step result = step(std::move(state_), event, now_, policy_);
    state_ = std::move(result.next);
    require(state_.number >= number, "a generation number decreases");
    require(state_.restarts.consumed >= restarts, "the restart count decreases");
    require(result.actions.size() <= 64 + 8 * (known + state_.roster.present.size()), "one event, too many actions");
    require(text_of(result.said).find('\n') == std::string::npos, "a line of the log is two");
    for (auto const& action : result.actions) {
      // A caller may still be refused in the same breath; nothing may begin.
      require(!closed_ || !(std::holds_alternative<OpenStore>(action) || std::holds_alternative<Conclude>(action)),
              "something begins after Close");
      std::visit([this](auto const& concrete) { check(concrete); }, action);
    }
  }

  void check(Tell const& action) {
    std::string const text = encode(action.message);
    require(text.size() <= wire::kMaxFrame, "a message does not fit a frame");
    auto const back = decode<ToAgent>(text);
    require(back && *back == action.message, "a message does not survive");
    if (auto const* const start = std::get_if<Start>(&action.message)) {
      require(start->number == state_.number, "another generation than the last one starts");
      require(state_.phase == Phase::running, "Start, but the phase is not running");
      require(!verdict_, "Start after the verdict");
    }
  }
  void check(TellBeat const& action) { require(action.ack.left >= Millis{0}, "a lease of less than nothing"); }
  void check(OpenStore const& action) {
    require(stores_.insert(action.number).second, "two stores for one generation");
  }
  void check(ArmTimer const& action) { armed_ = action.at; }
  void check(Conclude const& /*action*/) { require(!std::exchange(verdict_, true), "two verdicts"); }
  void check(Close const& /*action*/) { closed_ = true; }
  template <class Other>
  void check(Other const& /*action*/) {}

  fuzz::Script script_;
  Policy policy_;
  State state_;
  TimePoint now_{};
  AgentId last_ = 0;
  std::optional<TimePoint> armed_;
  std::set<std::uint64_t> stores_;
  bool verdict_ = false;
  bool closed_ = false;
};

}  // namespace

std::vector<std::string> fuzz_seeds() {
  // Three agents join, the store opens, all say what they should; then somebody is lost.
  using namespace std::string_literals;  // NOLINT(google-build-using-namespace): the compiler counts
  return {
      "\x02\x00\x00\x02\x00\x00\x00\x01"
      "\x01\x00\x01\x00\x01\x01\x01\x01\x00\x02\x00\x01\x01\x01\x01\x00\x03\x00\x01\x01\x01"
      "\x01\x05\x04\x01\x0a\x00\x01\x02\x01\x0a\x02\x01\x05\x04\x01\x0a\x00\x01\x0a\x01"s,
      std::string(64, '\x0b'), std::string(64, '\x08')};
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  Play(fuzz::Script(data, size)).run();
  return 0;
}
