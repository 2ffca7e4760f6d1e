// RunNames: by which names the run of an agent is known, to whoever looks for it and to whoever opens it: they tell the
// keys of one job, step or run from those of every other one. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "launcher/options/options.hpp"
#include "launcher/place/topology.hpp"
#include "rendezvous/trust/grant.hpp"

namespace cxxrun::launcher {

struct RunNamesOf {
  rendezvous::RunNames looks_for;
  rendezvous::RunNames opens;
};

/// A Slurm step is known as that step of its cluster, whatever --rdzv-id says; a run that flags describe by its id. Who
/// may find cxxrun-rendezvous looks for that of the job, too, and at a port that was agreed on for one of any job.
[[nodiscard]] RunNamesOf run_names(JobTopology const& topology, Options const& options, Environment const& environment);

/// Of --rdzv-id.
[[nodiscard]] std::string name_of_run(std::string const& id);
/// Of all steps of this run of the Slurm job; "" outside of one.
[[nodiscard]] std::string name_of_job(Environment const& environment);
/// Of whatever cxxrun-rendezvous serves at that port.
[[nodiscard]] std::string name_of_port(std::uint16_t port);

}  // namespace cxxrun::launcher
