#include "launcher/facts/outer_launcher.hpp"

#include <algorithm>
#include <array>

#include <climits>

#include "src/base/core/text.hpp"
#include "src/base/core/variables.hpp"

namespace cxxrun::launcher {
namespace {

// Slurm and MPICH (PMI_, PMI2_, HYDI_), PMIx, Open MPI, MPICH and Intel MPI (MPI_LOCALRANKID), Cray's PALS, MVAPICH,
// IBM's jsrun.
constexpr std::array<std::string_view, 9> kFamilies{"PMI_",  "PMI2_", "PMIX_",           "OMPI_",         "MPI_LOCAL",
                                                    "PALS_", "HYDI_", "MV2_COMM_WORLD_", "JSM_NAMESPACE_"};

// Parameters are settings, but mpirun of Open MPI 4 sets these for each process.
constexpr std::array<std::string_view, 3> kOfOneProcess{"OMPI_MCA_ess", "OMPI_MCA_orte_", "OMPI_MCA_pmix"};

// PMI_FANOUT, PMI_FANOUT_OFF_HOST and PMI_TIME are options of srun(1); mpicc reads OMPI_CC and the like.
constexpr std::array<std::string_view, 12> kSettings{
    "PMI_FANOUT", "PMI_TIME",    "OMPI_MCA_", "PMIX_MCA_",     "PMIX_INSTALL_PREFIX", "OMPI_ALLOW_RUN_AS_ROOT",
    "OMPI_CC",    "OMPI_CFLAGS", "OMPI_CXX",  "OMPI_CPPFLAGS", "OMPI_LDFLAGS",        "OMPI_LIBS"};

template <class Starts>
bool begins(std::string_view name, Starts const& starts) {
  return std::ranges::any_of(starts, [name](auto start) { return name.starts_with(start); });
}

}  // namespace

std::string job_step(Environment const& environment) {
  auto const step = value_of(environment, "SLURM_STEP_ID");
  return value_of(environment, "SLURM_JOB_ID") + (step.empty() ? "" : "." + step);
}

bool inside_worker(Environment const& environment) {
  auto const here = job_step(environment);  // "" also with --slurm-env clear
  return !value_of(environment, variables::kRunId).empty() &&
         (here.empty() || here == value_of(environment, variables::kJobStep));
}

Environment without_outer_options(Environment environment) {
  if (inside_worker(environment)) {
    for (char const* const name :
         {"PET_NNODES", "PET_NODE_RANK", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID", "PET_RDZV_CONF",
          "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_LOCAL_ADDR", "PET_JOIN"}) {
      environment.erase(name);
    }
  }
  return environment;
}

bool is_mpi_identity(std::string_view name) {
  return begins(name, kOfOneProcess) || (begins(name, kFamilies) && !begins(name, kSettings));
}

std::uint32_t mpi_size(Environment const& environment) {
  for (char const* const name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (auto const size = number_in<std::uint32_t>(value_of(environment, name))) {
      return *size;
    }
  }
  return 1;
}

Environment without_mpi_identity(Environment const& environment) {
  Environment rest = environment;
  std::erase_if(rest, [](auto const& variable) { return is_mpi_identity(variable.first); });
  return rest;
}

std::vector<int> mpi_descriptors(Environment const& environment) {
  std::vector<int> descriptors;
  for (auto const& [name, value] : environment) {
    auto const number = parse_unsigned(value, 3, INT_MAX);
    if (number && name.ends_with("_FD") && is_mpi_identity(name)) {
      descriptors.push_back(static_cast<int>(*number));
    }
  }
  std::ranges::sort(descriptors);
  descriptors.erase(std::unique(descriptors.begin(), descriptors.end()), descriptors.end());
  return descriptors;
}

}  // namespace cxxrun::launcher
