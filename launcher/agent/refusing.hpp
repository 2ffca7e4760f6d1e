// Refusing: an agent of a Slurm step that cannot take part tells the others, so that they do not wait for it. If it was
// to host the coordinator, it serves its refusal for a moment to the agents that call. Shell.
//
// It proves itself by the job's key like every agent, and calls for its own job and step alone: it can end no other
// job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/agent/agent_config.hpp"
#include "launcher/place/secret_file.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// How long the step's first agent waits for an answer at an IP address that, as far as names tell, belongs to no node
/// of the step. Nothing: as long as for any node. Blocks while names are resolved, 3 s at most.
[[nodiscard]] std::optional<Millis> patience_elsewhere(AgentConfig const& config);
/// The error if no answer came there.
[[nodiscard]] Error of_no_node(AgentConfig const& config);

/// Blocks until all agents of the step have heard `why`, at most 10 s. Does nothing outside a Slurm step.
void tell_refusal(AgentConfig const& config, std::string const& why);
/// For an agent whose options or environment are refused. Those of its options that are valid say where its step meets.
void tell_refusal(std::vector<std::string> const& arguments, Environment const& environment, Whereabouts const& here,
                  GivenSecret const& secret, std::string const& why);

}  // namespace cxxrun::launcher
