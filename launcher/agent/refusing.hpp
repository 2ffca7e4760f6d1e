// Refusing: an agent of a Slurm step that cannot take part tells the others, so that nobody waits for it. Where it was
// to coordinate, it serves its refusal for a moment to those that call. Shell.
//
// It is let in by the job's key like every agent, and calls for its own job and step alone: it ends no other one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cxxrun/error.hpp"
#include "launcher/agent/agent_config.hpp"
#include "launcher/place/secret_file.hpp"
#include "src/base/core/time.hpp"

namespace cxxrun::launcher {

/// How long the step's first agent waits for an answer at an address that neither it has nor a node whose name leads
/// there; nothing: for as long as for a node. Blocks while the names are resolved, 3 s at most.
[[nodiscard]] std::optional<Millis> patience_elsewhere(AgentConfig const& config);
/// What it says when there was none.
[[nodiscard]] Error of_no_node(AgentConfig const& config);

/// Blocks until all have heard it, at most 10 s. Nothing where `config` is of no step, or of one agent.
void tell_refusal(AgentConfig const& config, std::string const& why);
/// The same of an agent whose options or environment are refused: to where its step meets by what is not wrong in them.
void tell_refusal(std::vector<std::string> const& arguments, Environment const& environment, Whereabouts const& here,
                  GivenSecret const& secret, std::string const& why);

}  // namespace cxxrun::launcher
