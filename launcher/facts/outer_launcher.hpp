// What another launcher above this process leaves in its environment: an outer cxxrun, srun --mpi or mpiexec. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher {

// ---- below a worker of another cxxrun
//
// The variables of an outer cxxrun also reach processes that are not below its workers: sbatch passes them to another
// job, srun to another step. So the outer cxxrun records the job and step that it is in, and its variables count there
// alone.

/// The value of variables::kJobStep that a cxxrun in this environment sets for its workers: "<job>.<step>"; "<job>" in
/// a batch script or the shell of salloc; "" outside Slurm.
[[nodiscard]] std::string job_step(Environment const& environment);

/// Whether this process was started below a worker of another cxxrun. Then that cxxrun is the Slurm task, and this
/// process is not.
[[nodiscard]] bool inside_worker(Environment const& environment);

/// Without the PET_* variables that describe the nodes of the outer cxxrun: they are not options of an inner one.
[[nodiscard]] Environment without_outer_options(Environment environment);

// ---- as a rank of an MPI job
//
// The MPI identity: variables and descriptors by which a process manager (srun --mpi=…, mpiexec) tells one process
// which rank it is.

/// Settings of MPI libraries (OMPI_MCA_btl, PMIX_MCA_gds, PMI_TIME) are not part of it.
[[nodiscard]] bool is_mpi_identity(std::string_view name);

/// How many processes mpirun or srun --mpi=pmi2 has started, this one among them; 1 if neither did.
[[nodiscard]] std::uint32_t mpi_size(Environment const& environment);

/// The environment without it. In such a process MPI_Init starts a job of its own.
[[nodiscard]] Environment without_mpi_identity(Environment const& environment);

/// The descriptors that it names, for example in PMI_FD: ascending, above 2, possibly closed.
[[nodiscard]] std::vector<int> mpi_descriptors(Environment const& environment);

}  // namespace cxxrun::launcher
