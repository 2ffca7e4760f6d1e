#include "launcher/workers/signal_policy.hpp"

#include <csignal>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {
namespace {

// The parent passes a signal on within a scheduling delay. The same signal a second later is a new one.
constexpr Millis kSameSignal{1000};

bool stops(int signal, SignalContext const& context) {
  return asks_to_end(signal) || context.also_stop.contains(signal);
}

bool sent_by_slurm(SignalInfo const& signal, SignalContext const& context) {
  return signal.code != SI_KERNEL && context.slurmstepd == signal.sender;
}

SignalStep classify_stop(SignalState state, SignalInfo const& signal, SignalContext const& context) {
  std::string const name = signal_name(signal.signal);
  bool const terminal = signal.code == SI_KERNEL;
  if (terminal && context.interrupt_ignored && (signal.signal == SIGINT || signal.signal == SIGQUIT)) {
    return {std::move(state), SignalVerdict::ignore, name + " from the terminal, ignored since our start"};
  }
  bool const ctrl_c = terminal && signal.signal == SIGINT;
  if (ctrl_c && state.interrupted) {
    return {std::move(state), SignalVerdict::kill_now, "second Ctrl-C"};
  }
  state.interrupted = state.interrupted || ctrl_c;
  if (std::exchange(state.stopping, true)) {
    return {std::move(state), SignalVerdict::ignore, name + " again, already stopping"};
  }
  if (sent_by_slurm(signal, context)) {
    return {std::move(state), SignalVerdict::stop_without_forwarding, name + " from Slurm to every process"};
  }
  return {std::move(state), SignalVerdict::stop, ctrl_c ? "Ctrl-C" : name};
}

}  // namespace

std::string sender_text(SignalInfo const& signal, std::string const& program, SignalContext const& context) {
  if (signal.code == SI_KERNEL) {
    return {};
  }
  if (sent_by_slurm(signal, context)) {
    return "from Slurm";
  }
  if (signal.sender == 0) {
    return "from outside this container";
  }
  return "from pid " + std::to_string(signal.sender) + (program.empty() ? "" : " (" + printable(program, 20) + ")") +
         ", uid " + std::to_string(signal.uid);
}

SignalStep classify(SignalState state, SignalInfo const& signal, TimePoint now, SignalContext const& context) {
  if (stops(signal.signal, context)) {
    return classify_stop(std::move(state), signal, context);
  }
  std::string const name = signal_name(signal.signal);
  if (sent_by_slurm(signal, context)) {
    state.from_slurm[signal.signal] = now;
    return {std::move(state), SignalVerdict::ignore, name + " from Slurm to every process"};
  }
  auto const direct = state.from_slurm.find(signal.signal);
  if (signal.sender == context.parent && direct != state.from_slurm.end() && now - direct->second < kSameSignal) {
    return {std::move(state), SignalVerdict::ignore, name + " passed on, but Slurm sent it to the workers too"};
  }
  return {std::move(state), SignalVerdict::forward_only, name};
}

}  // namespace cxxrun::launcher
