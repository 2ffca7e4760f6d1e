#include "launcher/warm/warm_starts.hpp"

#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher::warm {
namespace {

constexpr char const* kInstead = "; workers are executed, as without --warm";

std::string explain(std::vector<std::string> const& words) {
  auto const& what = words.front();
  auto const module = printable(words.size() > 1 ? words[1] : "", 80);
  auto const detail = printable(words.size() > 2 ? words[2] : "", 200);
  if (what == "failed") {
    return "importing " + module + " has failed (" + detail + ")";
  }
  if (what == "device") {
    return "importing " + module + " has opened " + detail + ", which a forked process cannot use";
  }
  return "importing " + module + " has started " + what + " (" + detail + "), which a fork does not copy";
}

struct Transition : BasicTurn<State, Action, Policy> {
  void arm() {
    auto const limit = state.life == Life::importing ? policy.import_limit : policy.fork_limit;
    bool const any = !(state.life == Life::importing ? state.waiting : state.asked).empty();
    auto const at = any && !state.frozen ? std::optional(now + limit) : std::nullopt;
    if (at || state.deadline) {
      state.deadline = at;
      act(Arm{at});
    }
  }

  void on(Wanted const& event) {
    state.frozen = false;
    if (state.life == Life::given_up) {
      act(Execute{event.local_rank});
    } else if (state.life == Life::importing) {
      state.waiting.insert(event.local_rank);
      if (!state.deadline) {
        arm();
      }
    } else {
      ask(event.local_rank);
      arm();
    }
  }

  void ask(std::uint32_t local_rank) {
    state.asked.insert(local_rank);
    act(Fork{local_rank});
  }

  void on(Reported const& event) {
    if (state.life != Life::importing || event.words.empty()) {
      return;
    }
    if (event.words.front() != "ready") {
      return give_up(explain(event.words));
    }
    say(Level::debug, "--warm: " + policy.modules + " imported in " +
                          printable(event.words.size() > 1 ? event.words[1] : "?", 20) + " ms");
    state.life = Life::ready;
    for (auto const local_rank : std::exchange(state.waiting, {})) {
      ask(local_rank);
    }
    arm();
  }

  void on(Hello const& event) {
    if (state.asked.erase(event.local_rank) > 0) {
      act(Admit{event.local_rank, event.pid});
      if (state.asked.empty()) {
        arm();
      }
    }
  }

  void on(Lost const& event) {
    if (state.asked.erase(event.local_rank) > 0) {
      say(Level::info, "--warm: local rank " + std::to_string(event.local_rank) +
                           " could not be forked, or was killed at once: it is executed");
      act(Execute{event.local_rank});
      if (state.asked.empty()) {
        arm();
      }
    }
  }

  void on(Unopened const& event) {
    state.asked.erase(event.local_rank);
    if (state.asked.empty()) {
      arm();
    }
  }

  // Workers in `asked` stay: each either says hello or its socket closes, which is Lost.
  void on(Ended const& event) {
    if (state.life != Life::given_up) {
      state.life = Life::given_up;
      say(Level::warn,
          "--warm: the Python that workers are forked from has ended (" + event.status.describe() + ")" + kInstead);
      execute(std::exchange(state.waiting, {}));
    }
  }

  void on(Cancelled const&) {
    for (auto* const ranks : {&state.waiting, &state.asked}) {
      for (auto const local_rank : std::exchange(*ranks, {})) {
        act(Drop{local_rank});
      }
    }
    arm();
  }

  void on(Frozen const& event) {
    state.frozen = event.frozen;
    arm();
  }

  void on(Tick const&) {
    if (!state.deadline || now < *state.deadline) {
      return;
    }
    bool const importing = state.life == Life::importing;
    auto const limit = importing ? policy.import_limit : policy.fork_limit;
    give_up((importing ? "importing " + policy.modules + " is not done" : "a fork is not done") +
            std::string(" after ") + std::to_string(limit.count() / 1000) + " s");
  }

  void give_up(std::string const& why) {
    state.life = Life::given_up;
    say(Level::warn, "--warm: " + why + kInstead);
    act(Kill{});
    execute(std::exchange(state.waiting, {}));
    execute(std::exchange(state.asked, {}));
    arm();
  }

  void execute(std::set<std::uint32_t> const& ranks) {
    for (auto const local_rank : ranks) {
      act(Execute{local_rank});
    }
  }
};

}  // namespace

Step step(State state, Event const& event, TimePoint now, Policy const& policy) {
  Step result;
  result.next = std::move(state);
  Transition transition{{result.next, result.actions, result.said, now, policy}};
  std::visit([&transition](auto const& happened) { transition.on(happened); }, event);
  return result;
}

}  // namespace cxxrun::launcher::warm
