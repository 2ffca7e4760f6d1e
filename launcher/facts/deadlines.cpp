#include "launcher/facts/deadlines.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "src/base/core/exit_status.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

using std::chrono::duration_cast;
using std::chrono::seconds;

constexpr std::int64_t kYear = 366LL * 86'400;
/// Of --time-limit: three years. Agents refuse messages with longer times.
constexpr Millis kLongest{3 * 365LL * 86'400'000};
/// A job without a limit gets an end this long after its start, as seen in steps of Slurm 24.11.5 and 26.05.5.
constexpr std::int64_t kNever = 365LL * 86'400;

Result<Millis> no_time_limit() {
  return fail(Errc::usage, "a time as for sbatch is expected: MIN, MIN:SEC, H:M:S, D-H, D-H:M or D-H:M:S");
}

constexpr std::uint64_t kMostKillWait = 65'533;  // Slurm's own limit, in seconds

void apply(std::string const& key, std::string_view value, SlurmConf& conf) {
  if (key == "killwait") {
    if (auto const wait = parse_unsigned(value, 0, kMostKillWait)) {
      conf.kill_wait = Millis(*wait * 1000);
    }
  } else if (key == "proctracktype") {
    conf.tracks_by_parents = lower(value) == "proctrack/linuxproc";
  } else if (key == "signalchildrenprocesses") {
    auto const word = lower(value);
    conf.signals_children = word == "yes" || word == "true" || word == "up" || word == "1";
  }
}

std::optional<rendezvous::JobEnd> earlier(std::optional<rendezvous::JobEnd> const& a,
                                          std::optional<rendezvous::JobEnd> const& b) {
  return a && (!b || a->at <= b->at) ? a : b;
}

void set_end(EndPlan& plan, rendezvous::JobEnd const& end) {
  plan.end = end.at;
  plan.ours = end.limit;
}

std::string in_seconds(Millis time) {
  return std::to_string(duration_cast<seconds>(time).count()) + " s";
}

}  // namespace

Result<CheckpointSignal> parse_checkpoint_signal(std::string_view text) {
  auto const at = text.find('@');
  auto const signal = signal_number(text.substr(0, at));
  auto const before = parse_unsigned(at == std::string_view::npos ? "" : text.substr(at + 1), 1, kYear);
  if (!signal || !before) {
    return fail(Errc::usage, "SIGNAL@SECONDS is expected, for example USR1@120");
  }
  if (*signal == SIGKILL || *signal == SIGSTOP) {
    return fail(Errc::usage, "no program can catch " + signal_name(*signal) + "; USR1@120, for example, it can");
  }
  return CheckpointSignal{*signal, Millis(*before * 1000)};
}

Result<Millis> parse_time_limit(std::string_view text) {
  auto const word = lower(text);
  if (word == "unlimited" || word == "infinite") {
    return Millis{0};
  }
  auto const dash = text.find('-');
  bool const has_days = dash != std::string_view::npos;
  auto const parts = split(has_days ? text.substr(dash + 1) : text, ':');
  if (parts.size() > 3) {
    return no_time_limit();
  }
  std::vector<std::uint64_t> numbers;
  for (auto const& part : parts) {
    auto const number = parse_unsigned(part, 0, kYear);
    if (!number) {
      return no_time_limit();
    }
    numbers.push_back(*number);
  }
  auto const days = has_days ? parse_unsigned(text.substr(0, dash), 0, 3660) : Result<std::uint64_t>(std::uint64_t{0});
  if (!days) {
    return no_time_limit();
  }
  // Without days, one or two numbers start with minutes; otherwise the first number is hours.
  if (!has_days && numbers.size() < 3) {
    numbers.insert(numbers.begin(), 0);
  }
  numbers.resize(3, 0);
  return std::min(Millis((((*days * 24 + numbers[0]) * 60 + numbers[1]) * 60 + numbers[2]) * 1000), kLongest);
}

SlurmConf parse_slurm_conf(std::string_view text) {
  SlurmConf conf;
  for (auto const& each : split(text, '\n')) {
    auto line = std::string_view(each).substr(0, each.find('#'));  // may have several settings
    for (auto at = line.find('='); at != std::string_view::npos; at = line.find('=')) {
      auto const key = lower(trim(line.substr(0, at)));
      line = trim(line.substr(at + 1));
      bool const quoted = line.starts_with('"');
      line.remove_prefix(quoted ? 1 : 0);
      auto const end = std::min(line.find_first_of(quoted ? "\"" : " \t\r"), line.size());
      apply(key, line.substr(0, end), conf);
      line.remove_prefix(std::min(end + 1, line.size()));
    }
  }
  return conf;
}

EndPlan plan_end(std::optional<CheckpointSignal> const& checkpoint, Millis time_limit, SlurmTimes const& slurm,
                 std::int64_t unix_now, TimePoint start, bool added) {
  EndPlan plan;
  plan.checkpoint = checkpoint;
  std::optional<rendezvous::JobEnd> by_slurm;
  if (auto const end = parse_unsigned(slurm.end, 1, INT64_MAX); end) {
    auto const at = static_cast<std::int64_t>(*end);
    auto const began = parse_unsigned(slurm.start, 1, *end);
    if (at < unix_now) {
      plan.notes.push_back("SLURM_JOB_END_TIME=" + std::to_string(at) + " is in the past and has no effect");
    } else if (at - (began ? static_cast<std::int64_t>(*began) : unix_now) < kNever) {
      by_slurm = {start + seconds(at - unix_now), false};
    }
  } else if (!slurm.end.empty() && slurm.end != "0") {
    plan.notes.push_back("SLURM_JOB_END_TIME=" + printable(slurm.end, 40) + " is no time and has no effect");
  }
  auto const limit =
      time_limit > Millis{0} ? std::optional(rendezvous::JobEnd{start + time_limit, true}) : std::nullopt;
  auto const end = earlier(by_slurm, limit);
  if (end) {
    set_end(plan, *end);
  }
  plan.own = added ? end : by_slurm;
  plan.tells = !added;
  plan.late = checkpoint && plan.end && *plan.end - checkpoint->before <= start;
  if (checkpoint && !plan.end && !added) {
    plan.notes.push_back(
        "--checkpoint-signal has no effect: nobody says when the job ends; add --time-limit, with the "
        "value of sbatch --time");
  }
  return plan;
}

std::optional<rendezvous::JobEnd> job_end(EndPlan const& plan) {
  return plan.tells && plan.end ? std::optional(rendezvous::JobEnd{*plan.end, plan.ours}) : std::nullopt;
}

EndPlan adopt(EndPlan plan, std::optional<rendezvous::JobEnd> const& told) {
  if (told) {
    bool const taken_away = plan.own && plan.own->at + kClocksDiffer < told->at;
    set_end(plan, taken_away ? *plan.own : *told);
  }
  return plan;
}

namespace countdown {
namespace {

constexpr std::array kLooksAfter = {seconds(1), seconds(2), seconds(5), seconds(10), seconds(20), seconds(40)};

struct Turn : BasicTurn<State, Action, EndPlan> {
  [[nodiscard]] std::optional<TimePoint> due() const {
    return policy.end && policy.checkpoint ? std::optional(*policy.end - policy.checkpoint->before) : std::nullopt;
  }

  void on(WorkersRun const&) {
    state.workers_run = true;
    state.looks = state.missing = 0;
    state.next_look = due();
  }

  void on(WorkersEnd const&) {
    state.workers_run = false;
    state.next_look.reset();
    say_who_missed();
  }

  void say_who_missed() {
    if (auto const missing = std::exchange(state.missing, 0); missing > 0) {
      say(Level::info, std::to_string(missing) + " of the workers here do not catch " +
                           signal_name(policy.checkpoint->signal) + " and did not get it");
    }
  }

  void on(Passed const& event) {
    if (!state.workers_run) {
      return;
    }
    state.missing = event.missing;
    if (event.missing > 0 && event.workers > 0 && state.looks == 0) {
      say(Level::warn, signal_name(policy.checkpoint->signal) + " to " + std::to_string(event.workers - event.missing) +
                           " of " + counted(event.workers, "worker") +
                           " here: the others have no handler for it yet, and are tried again");
    }
    if (event.missing == 0) {
      state.next_look.reset();
    } else if (state.looks < kLooksAfter.size()) {
      state.next_look = now + kLooksAfter[state.looks++];
    } else {
      state.next_look.reset();
      say_who_missed();
    }
  }

  void on(Tick const&) {}

  void announce() {
    auto const left = duration_cast<Millis>(*policy.end - now);
    std::string const what = signal_name(policy.checkpoint->signal) + " to the workers";
    bool const late = left + seconds(1) < policy.checkpoint->before;
    say(Level::info, late ? "only " + in_seconds(left) + " are left, less than --checkpoint-signal says: " + what
                          : what + ", " + in_seconds(policy.checkpoint->before) + " before the end");
  }

  void act_on_time() {
    if (policy.ours && !state.ended && now >= *policy.end) {
      state.ended = true;
      act(EndJob{});
      return;
    }
    if (state.next_look && now >= *state.next_look && now < *policy.end) {
      if (!std::exchange(state.announced, true)) {
        announce();
      }
      state.passed = true;
      state.next_look.reset();
      act(Pass{policy.checkpoint->signal});  // Passed sets the alarm
      return;
    }
    set_alarm();
  }

  void set_alarm() {
    auto const at = earliest({state.next_look, policy.ours && !state.ended ? policy.end : std::nullopt});
    if (at && *at > now) {
      act(WakeAt{*at});
    }
  }
};

}  // namespace

Step step(State const& state, Event const& event, TimePoint now, EndPlan const& plan) {
  Step result;
  result.next = state;
  Turn turn{{result.next, result.actions, result.said, now, plan}};
  std::visit([&turn](auto const& concrete) { turn.on(concrete); }, event);
  if (plan.end) {
    turn.act_on_time();
  }
  return result;
}

}  // namespace countdown
}  // namespace cxxrun::launcher
