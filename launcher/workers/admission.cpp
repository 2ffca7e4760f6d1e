#include "launcher/workers/admission.hpp"

#include "src/core/text.hpp"

namespace cxxrun::launcher {

std::optional<std::uint32_t> worker_of(Caller const& caller, WhoIs const& who) {
  if (caller.pid <= 0) {
    return std::nullopt;
  }
  auto const local_rank = who(caller.pid);
  return local_rank || caller.session <= 0 ? local_rank : who(caller.session);
}

std::string why_not(Registration const& registration) {
  if (!registration.local_rank) {
    return kNoWorker;
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
