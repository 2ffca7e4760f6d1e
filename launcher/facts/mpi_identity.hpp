// What tells a process which rank of an MPI job it is: variables and descriptors of a process manager (srun --mpi=…,
// mpiexec), each for one process alone. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "launcher/facts/environment.hpp"

namespace cxxrun::launcher {

/// Whether the variable is part of it. Settings of MPI libraries (OMPI_MCA_btl, PMIX_MCA_gds, PMI_TIME) are not.
[[nodiscard]] bool is_mpi_identity(std::string_view name);

/// The environment of a process that is no rank of that job: MPI_Init makes it a job of its own.
[[nodiscard]] Environment without_mpi_identity(Environment const& environment);

/// The descriptors that it names, for example in PMI_FD, ascending and above 2; they may be closed.
[[nodiscard]] std::vector<int> mpi_descriptors(Environment const& environment);

}  // namespace cxxrun::launcher
