#include "launcher/workers/admission.hpp"

#include <algorithm>

#include "launcher/workers/left_behind.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

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
  return caller.pid > 0 && caller.ours && caller.named > 0 ? who(caller.named) : std::nullopt;
}

std::optional<std::uint32_t> rank_of_agent(std::string const& variables, std::string const& socket) {
  auto const entries = split(variables, '\0');
  bool const of_it = std::any_of(entries.begin(), entries.end(), [&](std::string const& each) {
    return each.starts_with("CXXRUN_") && each.ends_with("=" + socket);
  });
  return of_it ? rank_in(variables) : std::nullopt;
}

std::string no_worker(Caller const& caller) {
  if (caller.ours) {
    return "it has left its worker's session, and RANK and CXXRUN_AGENT, which would say whose it is, are not "
           "in its environment; hand them on (podman run --env-host)";
  }
  return caller.pid > 0 ? "no worker of this agent has started it; what a daemon starts (docker, ssh, a tmux that runs "
                          "already) cannot be a worker: use podman, apptainer or enroot, or start cxxrun in there"
                        : "this agent is in a PID namespace, and it is in none below that";
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
