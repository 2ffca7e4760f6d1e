#include "launcher/place/run_names.hpp"

#include "launcher/facts/discovery.hpp"

namespace cxxrun::launcher {
namespace {

std::string of_cluster(Environment const& environment) {
  auto const cluster = value_of(environment, "SLURM_CLUSTER_NAME");
  return cluster.empty() ? "" : " of " + cluster;
}

}  // namespace

RunNamesOf run_names(JobTopology const& topology, Options const& options, Environment const& environment) {
  auto const& ports = topology.meeting.ports;
  bool const agreed_port = ports.size() == 1 && ports.front() != 0;
  RunNamesOf names;
  if (!topology.step.empty()) {
    names.opens.push_back("step " + topology.step + of_cluster(environment));
  }
  if (topology.source != JobTopology::Source::slurm || (options.rdzv_id && agreed_port)) {
    names.opens.push_back(name_of_run(topology.run_id));
  }
  names.looks_for = names.opens;
  if (auto const job = name_of_job(environment); !job.empty() && topology.source != JobTopology::Source::join) {
    names.looks_for.push_back(job);
  }
  if (options.rdzv_id && agreed_port) {
    names.looks_for.push_back(name_of_port(ports.front()));
  }
  return names;
}

std::string name_of_run(std::string const& id) {
  return "run " + id;
}

std::string name_of_job(Environment const& environment) {
  auto const name = discovery_name(environment);
  auto const restarts = restart_count(environment);
  return name.empty() ? "" : "job " + name + (restarts == 0 ? "" : "." + std::to_string(restarts));
}

std::string name_of_port(std::uint16_t port) {
  return "any run at port " + std::to_string(port);
}

}  // namespace cxxrun::launcher
