#include "launcher/doctor/meeting.hpp"

#include "launcher/doctor/step_findings.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/hash.hpp"
#include "src/base/core/port_sequence.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr std::size_t kPorts = 4;

Error usage(std::string text) {
  return fail(Errc::usage, "--doctor over several nodes without Slurm: " + std::move(text));
}

}  // namespace

Result<std::optional<Meeting>> meeting_of(Options const& options, std::optional<SlurmStep> const& step) {
  if (step && step->nodes() > 1) {
    auto const port = options.rdzv_endpoint ? options.rdzv_endpoint->port : std::nullopt;
    auto const given = options.rdzv_endpoint ? options.rdzv_endpoint->host : options.master_addr.value_or("");
    bool const by_address = is_ip_literal(given) && !is_loopback(given);
    return std::optional(Meeting{step->run_id, by_address ? given : step->node_names.front(),
                                 port ? std::vector{*port} : port_sequence("doctor " + step->run_id, kPorts),
                                 step->node_names, step->node_index, step->nodes(), options.local_addr, by_address});
  }
  if (options.standalone || !options.nnodes || options.nnodes->max == 1) {
    return std::optional<Meeting>();
  }
  auto const nodes = options.nnodes->max;
  if (!options.rdzv_endpoint && !options.master_addr) {
    return usage("add --rdzv-endpoint HOST[:PORT], the first node, the same on all");
  }
  if (!options.node_rank || *options.node_rank >= nodes) {
    return usage("add --node-rank, from 0 on the first node to " + std::to_string(nodes - 1));
  }
  auto const endpoint = options.rdzv_endpoint.value_or(Endpoint{options.master_addr.value_or(""), std::nullopt});
  return std::optional(Meeting{options.rdzv_id.value_or("none"),
                               endpoint.host,
                               {endpoint.port.value_or(kDefaultPort)},
                               {},
                               *options.node_rank,
                               nodes,
                               options.local_addr,
                               is_ip_literal(endpoint.host)});
}

std::vector<std::uint32_t> peers_in(Meeting const& meeting) {
  return peers_of(meeting.index, meeting.nodes, fnv1a(meeting.id));
}

std::vector<std::string> names_to_know(Meeting const& meeting) {
  std::vector<std::string> names = {meeting.first};
  if (meeting.by_address || !meeting.local_addr.empty()) {
    return names;
  }
  for (auto const peer : peers_in(meeting)) {
    if (peer > 0 && peer < meeting.names.size()) {
      names.push_back(meeting.names[peer]);
    }
  }
  return names;
}

std::string name_for_others(Meeting const& meeting, std::function<std::string()> const& towards_first) {
  if (!meeting.local_addr.empty()) {
    return meeting.local_addr;
  }
  if (!meeting.names.empty() && !meeting.by_address) {
    return meeting.names[meeting.index];
  }
  return meeting.index == 0 && meeting.names.empty() ? meeting.first : towards_first();
}

}  // namespace cxxrun::launcher::doctor
