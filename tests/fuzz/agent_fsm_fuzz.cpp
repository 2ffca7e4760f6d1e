// Fuzzes the agent's state machine: any messages, ends and times in any order, but workers end only if they run. Nobody
// leaves while workers run or wait, and nobody starts any beside those that do, or beside those that waited and end.
#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/life/agent_state.hpp"
#include "src/base/wire/frame.hpp"
#include "tests/fuzz/script.hpp"
#include "tests/support/said.hpp"

namespace {

using namespace cxxrun;                   // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher::agent;  // NOLINT(google-build-using-namespace)
namespace rdzv = cxxrun::rendezvous;
using fuzz::require;

class Play {
 public:
  explicit Play(fuzz::Script script) : script_(script) {
    policy_.health_check = script_.flip();
    policy_.slurm_signals_all = script_.flip();
    policy_.added = policy_.slurm_signals_all;  // without a byte of its own, which would shift the corpus
    now_ += Millis(1'000'000);
  }

  void run() {
    up_.insert(kFirstLink);
    feed(LinkUp{kFirstLink, "c1"});
    while (!script_.over() && !left_) {
      turn();
    }
  }

 private:
  void turn() {
    switch (script_.below(16)) {
      case 0:
        if (auto const link = one_of(dialled_)) {
          up_.insert(*link);
          dialled_.erase(*link);
          feed(LinkUp{*link, script_.flip() ? "c1" : "c2"});
        }
        break;
      case 1:
        if (auto const link = one_of(up_)) {
          up_.erase(*link);
          feed(LinkDown{*link, "end of file", script_.flip() ? rdzv::Ended::in_order : rdzv::Ended::broken});
        }
        break;
      case 2:
        if (auto const link = one_of(dialled_)) {
          dialled_.erase(*link);
          feed(LinkFailed{*link, "why", script_.flip()});
        }
        break;
      case 3:
        if (auto const link = one_of(up_)) {
          feed(BeatAnswered{*link, fuzz::some_beat_ack(script_, hints())});
        }
        break;
      case 4: feed(rdzv_stepped_down()); break;
      case 5:
        if (running_) {
          feed(WorkerEnded{*running_, fuzz::some_exit(script_)});
        }
        break;
      case 6: all_end(); break;
      case 7: feed(EndSignal{15, script_.flip()}); break;
      case 8:
        if (waiting_ && script_.flip()) {
          feed(Filled{*waiting_, script_.flip()});
        } else {
          feed(KillSignal{});
        }
        break;
      case 9:
        now_ += Millis(script_.below(200) * 50);
        feed(Tick{});
        break;
      case 10:
        if (armed_) {
          now_ = std::max(now_, *armed_);
          feed(Tick{});
        }
        break;
      default:
        if (auto const link = one_of(up_)) {
          feed(FromLink{*link, fuzz::some_to_agent(script_, hints())});
        }
    }
  }

  /// Links have a life, which the shell keeps to: dialled, up or failed, down. Mostly the first one.
  std::optional<LinkId> one_of(std::set<LinkId> const& links) {
    if (links.empty()) {
      return std::nullopt;
    }
    auto const steps = script_.flip() ? 0 : script_.below(static_cast<std::uint32_t>(links.size()));
    return *std::next(links.begin(), steps);
  }

  SteppedDown rdzv_stepped_down() { return {"why", script_.below(4)}; }

  void all_end() {
    if (auto const number = std::exchange(running_, std::nullopt)) {
      std::vector<rdzv::WorkerExit> exits;
      if (script_.flip()) {
        exits.push_back(fuzz::some_exit(script_));
      }
      bool const keeps = kept_ && script_.flip();  // some have parked, maybe before a later order was heard
      waiting_ = keeps ? number : std::nullopt;
      ending_ = false;
      feed(GroupEnded{*number, std::move(exits), {}, keeps, {}, script_.flip()});
    } else if (waiting_ && ending_) {
      feed(GroupEnded{*std::exchange(waiting_, std::nullopt), {}, {}});
    }
  }

  [[nodiscard]] fuzz::Hints hints() const {
    std::uint64_t const number = state_.generation ? state_.generation->number : 0;
    return {number, number, 3, {1, 0}};
  }

  void feed(Event const& event) {
    if (left_) {
      return;
    }
    Step result = step(std::move(state_), event, now_, policy_);
    state_ = std::move(result.next);
    require(result.actions.size() <= 64, "one event, too many actions");
    require(text_of(result.said).find('\n') == std::string::npos, "a line of the log is two");
    for (auto const& action : result.actions) {
      require(!left_, "an action after Exit");
      std::visit([this](auto const& concrete) { check(concrete); }, action);
    }
  }

  static void check_message(rdzv::ToCoordinator const& message) {
    std::string const text = encode(message);
    require(text.size() <= wire::kMaxFrame, "a message does not fit a frame");
    require(static_cast<bool>(rdzv::decode<rdzv::ToCoordinator>(text)), "a message does not survive");
  }
  void check(TellLink const& action) { check_message(action.message); }
  void check(StartWorkers const& action) { begin(action.generation.number); }
  void check(FillWorkers const& action) {
    require(!running_ && !ending_, "what is missing starts beside workers that run or are being stopped");
    waiting_ = action.generation.number;
  }
  void check(RunCheck const& action) {
    require(!waiting_, "a node is checked while workers wait");
    begin(action.generation.number);
  }
  void check(StopWorkers const& action) {
    kept_ = kept_ || (running_ && action.order.park);
    ending_ = ending_ || !action.order.park;
  }
  void check(ArmTimer const& action) { armed_ = action.at; }
  void check(Dial const& action) { dial(action.link); }
  void check(Rejoin const& action) {
    require(!waiting_, "it joins again while workers wait");
    dial(action.link);
  }
  void check(HangUp const& action) {
    up_.erase(action.link);
    dialled_.erase(action.link);
  }
  void check(Exit const& /*action*/) {
    require(!running_, "it leaves while workers run");
    require(!waiting_, "it leaves while workers wait");
    left_ = true;
  }
  template <class Other>
  void check(Other const& /*action*/) {}

  void dial(LinkId link) {
    require(link > newest_, "a link's number is used again");
    newest_ = link;
    dialled_.insert(link);
  }
  void begin(std::uint64_t number) {
    require(!running_, "workers start beside others");
    require(!waiting_ || !ending_, "workers start beside those that are being stopped");
    running_ = number;
    waiting_.reset();
    kept_ = false;
    ending_ = false;
  }

  fuzz::Script script_;
  Policy policy_;
  State state_;
  TimePoint now_{};
  std::optional<TimePoint> armed_;
  std::optional<std::uint64_t> running_;
  std::optional<std::uint64_t> waiting_;  ///< workers of that generation have parked
  bool kept_ = false;                     ///< an order has kept workers of the generation
  bool ending_ = false;                   ///< an order keeps nobody
  std::set<LinkId> dialled_;
  std::set<LinkId> up_;
  LinkId newest_ = kFirstLink;
  bool left_ = false;
};

}  // namespace

std::vector<std::string> fuzz_seeds() {
  // A generation is prepared, started, stopped; the next one; the coordinator is lost.
  using namespace std::string_literals;  // NOLINT(google-build-using-namespace): the compiler counts
  return {
      "\x00\x00\x01\x0b\x00\x04\x02\x00\x00\x00\x01\x04\x04\x02\x00\x00\x00\x01\x00\x05\x01\x0b\x01\x04"
      "\x05\x20\x01\x0b\x02\x04\x00\x01\x06\x00\x01\x0b\x00\x00\x02\x00\x00\x00\x01\x04"s,
      std::string(64, '\x0b'), std::string(64, '\x01')};
}

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  Play(fuzz::Script(data, size)).run();
  return 0;
}
