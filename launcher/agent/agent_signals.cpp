#include "launcher/agent/agent_signals.hpp"

#include <utility>

#include "src/base/os/log.hpp"
#include "src/base/os/process_info.hpp"

namespace cxxrun::launcher {

AgentSignals::AgentSignals(boost::asio::io_context& io, os::AgentSide const& side, AgentConfig const& config,
                           Handlers handlers)
    : page_(*side.page), handlers_(std::move(handlers)), watch_(io, [this](SignalInfo const& info) { obey(info); }) {
  context_.parent = side.parent;
  context_.interrupt_ignored = side.interrupt_ignored;
  context_.also_stop = config.options.stop_signals;
  if (config.environment.contains("SLURM_JOB_ID")) {
    context_.slurmstepd = os::find_ancestor("slurmstepd");
  }
}

void AgentSignals::obey(SignalInfo const& info) {
  auto result = classify(std::move(state_), info, Clock::now(), context_);
  state_ = std::move(result.next);
  log(Level::debug, result.reason);
  switch (result.verdict) {
    case SignalVerdict::ignore: break;
    case SignalVerdict::stop:
      handlers_.feed(agent::EndSignal{info.signal, true, state_.interrupted, sender_of(info)});
      break;
    case SignalVerdict::stop_without_forwarding:
      handlers_.feed(agent::EndSignal{info.signal, false, false, sender_of(info)});
      break;
    case SignalVerdict::kill_now: handlers_.feed(agent::KillSignal{}); break;
    case SignalVerdict::forward_only: handlers_.forward(info.signal); break;
  }
}

/// Whom the parent, who passes signals on, had it from.
std::string AgentSignals::sender_of(SignalInfo info) const {
  if (info.sender == context_.parent) {
    auto const sender = page_.sender();
    info.sender = sender.pid;
    info.uid = sender.uid;
    return sender_text(info, sender.name, context_);
  }
  auto const stat = os::read_stat(info.sender);
  return sender_text(info, stat ? stat->comm : "", context_);
}

}  // namespace cxxrun::launcher
