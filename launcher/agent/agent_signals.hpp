// AgentSignals: the signals that an agent gets, as its events. The shell around signal_policy.hpp.
//
// Runs on the thread of the io_context given to it.
#pragma once

#include <functional>
#include <string>

#include "launcher/agent/agent_config.hpp"
#include "launcher/life/agent_state.hpp"
#include "launcher/workers/signal_policy.hpp"
#include "src/base/os/monitor.hpp"
#include "src/base/os/signal_watch.hpp"

namespace cxxrun::launcher {

class AgentSignals {
 public:
  struct Handlers {
    std::function<void(agent::Event)> feed;
    std::function<void(int signal)> forward;  ///< to the workers that catch it
  };
  /// `io` and side.page outlive it. Nothing is heard before begin().
  AgentSignals(boost::asio::io_context& io, os::AgentSide const& side, AgentConfig const& config, Handlers handlers);

  /// Errc::io without a descriptor to spare.
  Result<void> begin(sigset_t const& signals) { return watch_.begin(signals); }

 private:
  void obey(SignalInfo const& info);
  [[nodiscard]] std::string sender_of(SignalInfo info) const;

  os::SharedPage const& page_;
  Handlers handlers_;
  SignalContext context_;
  SignalState state_;
  os::SignalWatch watch_;
};

}  // namespace cxxrun::launcher
