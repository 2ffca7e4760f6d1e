#include "launcher/doctor/doctor.hpp"

#include <cstdio>

#include "launcher/doctor/findings_text.hpp"
#include "launcher/doctor/judge.hpp"
#include "launcher/doctor/look.hpp"
#include "launcher/place/slurm_env.hpp"
#include "src/os/system.hpp"

namespace cxxrun::launcher::doctor {
namespace {

std::string python_of(Options const& options, Environment const& environment) {
  auto const name = options.program.substr(options.program.rfind('/') + 1);
  return name.starts_with("python") ? options.program : find_value(environment, "PYTHON_EXEC").value_or("python3");
}

Wanted wanted_by(Options const& options, Environment const& environment, std::optional<SlurmStep> const& step) {
  Wanted wanted;
  wanted.host = step ? step->node_names[step->node_index] : os::host_name();
  wanted.names = step ? step->node_names : std::vector<std::string>();
  wanted.python = python_of(options, environment);
  wanted.log_dir = options.log_dir;
  wanted.slurm = environment.contains("SLURM_JOB_ID");
  return wanted;
}

}  // namespace

int run_doctor(Options const& options, Environment const& environment) {
  auto const slurm = read_slurm(environment);
  auto facts = look(wanted_by(options, environment, slurm ? slurm->step : std::nullopt), environment);
  facts["slurm.trouble"] = slurm ? "" : slurm.error().message();
  std::vector<NodeFindings> const nodes = {{value_of(facts, "host"), judge(facts)}};
  std::fputs((options.json ? findings_json(nodes) : findings_text(nodes)).c_str(), stdout);
  return count(nodes, Grade::failure) == 0 ? 0 : 1;
}

}  // namespace cxxrun::launcher::doctor
