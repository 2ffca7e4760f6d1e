#include "launcher/workers/worker_processes.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

constexpr std::size_t kNameBytes = 48;
constexpr std::size_t kMostNamed = 4;

}  // namespace

// ---- Targets of a stop signal -------------------------------------------------------------------------------------

void add_signal_targets(pid_t pid, pid_t parent, InspectChild const& inspect, ChildrenOf const& children,
                        SignalTargets& targets) {
  auto const response = inspect(pid, parent);
  if (!response) {
    return;
  }
  targets.all.push_back(pid);
  if (response->handles) {
    targets.programs.push_back(pid);
  }
  if (response->handles && !response->only_waits) {
    return;
  }
  for (pid_t const child : children(pid)) {
    add_signal_targets(child, pid, inspect, children, targets);
  }
}

bool only_waits(std::string_view path) {
  static constexpr std::array<std::string_view, 14> kNames{
      "sh", "ash", "bash", "busybox", "csh", "dash", "fish", "ksh93", "ksh", "mksh", "tcsh", "yash", "zsh", "unshare"};
  auto const name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0: the whole path
  return std::ranges::find(kNames, name) != kNames.end();
}

// ---- Processes left behind ----------------------------------------------------------------------------------------

std::string program_name(std::string const& cmdline, std::string const& comm) {
  auto const words = replace_all(cmdline, std::string_view("\0", 1), " ");
  auto const program = words.substr(0, words.find(' '));
  auto const directory = program.rfind('/') + 1;  // npos + 1 is 0
  std::string const name(trim(words.substr(directory)));
  return printable(name.empty() ? comm : name, kNameBytes);
}

std::optional<std::uint32_t> rank_in(std::string const& variables) {
  constexpr std::string_view kRank = "RANK=";
  for (auto const& each : split(variables, '\0')) {
    if (each.starts_with(kRank)) {
      return number_in<std::uint32_t>(std::string_view(each).substr(kRank.size()));
    }
  }
  return std::nullopt;
}

std::string killed_line(std::vector<LeftBehind> const& killed) {
  std::vector<std::uint32_t> ranks;
  std::vector<std::string> names;
  bool known = true;
  for (auto const& each : killed) {
    names.push_back(each.name + " (" + std::to_string(each.pid) + ")");
    known = known && each.rank;
    ranks.push_back(each.rank.value_or(0));
  }
  auto const list = number_list(std::move(ranks));
  bool const one = list.find_first_not_of("0123456789") == std::string::npos;
  return "killed " + std::to_string(killed.size()) + (killed.size() == 1 ? " process" : " processes") + " that " +
         (known ? (one ? "rank " : "ranks ") + list : "workers") +
         " had left: " + join_first(kMostNamed, std::move(names)) + "; a worker has to wait for what it starts";
}

// ---- Callers at the agent's socket --------------------------------------------------------------------------------

std::optional<std::uint32_t> worker_of(Caller const& caller, WhoIs const& who) {
  if (caller.pid <= 0) {
    return std::nullopt;
  }
  auto local_rank = who(caller.pid);
  if (!local_rank && caller.session > 0) {
    local_rank = who(caller.session);
  }
  for (auto each = caller.ancestors.begin(); !local_rank && each != caller.ancestors.end(); ++each) {
    local_rank = who(*each);
  }
  return local_rank;
}

std::optional<std::uint32_t> worker_named(Caller const& caller, WhoIs const& who) {
  return caller.pid > 0 && caller.of_agent && caller.named > 0 ? who(caller.named) : std::nullopt;
}

std::optional<std::uint32_t> rank_of_agent(std::string const& variables, std::string const& socket) {
  auto const entries = split(variables, '\0');
  bool const of_it = std::ranges::any_of(
      entries, [&](std::string const& each) { return each.starts_with("CXXRUN_") && each.ends_with("=" + socket); });
  return of_it ? rank_in(variables) : std::nullopt;
}

std::string no_worker(Caller const& caller) {
  if (caller.of_agent) {
    return "it has left its worker's session, and its environment lacks RANK and CXXRUN_AGENT, which would say which "
           "worker it belongs to; pass them on (podman run --env-host)";
  }
  return caller.pid > 0 ? "no worker of this agent has started it; a process that a daemon starts (docker, ssh, a "
                          "running tmux server) cannot be a worker: use podman, apptainer or enroot, or start cxxrun "
                          "inside it"
                        : "its PID namespace is not below that of this agent";
}

std::string why_not(Registration const& registration, Caller const& caller) {
  if (!registration.local_rank) {
    return no_worker(caller);
  }
  if (registration.asked != registration.generation) {
    return "it is of generation " + std::to_string(registration.asked) + ", and this is generation " +
           std::to_string(registration.generation);
  }
  return registration.holder == 0 ? "" : "pid " + std::to_string(registration.holder) + " is registered in its place";
}

std::string refusal_line(Caller const& caller, std::optional<std::uint32_t> local_rank, std::string const& why) {
  return "pid " + std::to_string(caller.pid) + " (" + printable(caller.program) + ") is refused as worker" +
         (local_rank ? " of local rank " + std::to_string(*local_rank) : "") + ": " + why;
}

}  // namespace cxxrun::launcher
