#include "rendezvous/protocol/message_fields.hpp"

namespace cxxrun::rendezvous {

void read(Json const& json, WorkerExit& exit, std::string& problem) {
  Fields fields(json, problem);
  std::string end;
  fields.read("rank", exit.rank);
  fields.read("local_rank", exit.local_rank);
  fields.read("pid", exit.pid);
  fields.read("end", end);
  fields.read("value", exit.status.value);
  fields.read("core", exit.status.core_dumped);
  fields.read("ours", exit.ours);
  fields.read("wall_ms", exit.wall_ms);
  fields.read_text_if_any("hung", exit.hung);
  fields.read_text_if_any("stderr", exit.stderr_tail);
  fields.read_text_if_any("error_file", exit.error_file);
  for (auto const kind : {ExitStatus::Kind::exited, ExitStatus::Kind::signalled, ExitStatus::Kind::not_started}) {
    if (end == name_of(kind)) {
      exit.status.kind = kind;
      return;
    }
  }
  fields.complain("end");
}

void read(Json const& json, NodeInfo& node, std::string& problem) {
  Fields fields(json, problem);
  fields.read_optional("node_index", node.node_index);
  fields.read("incarnation", node.incarnation);
  fields.read("host", node.host);
  fields.read("slots", node.slots);
  fields.read("role", node.role);
  fields.read("hosts", node.hosts);
  fields.read("announce", node.announce);
  fields.read("standby_port", node.standby_port);
  if (node.slots == 0 || node.slots > kMaxItems) {
    fields.complain("slots");
  }
}

void read_wait(Fields& fields, char const* name, Millis& into) {
  std::int64_t ms = 0;
  fields.read(name, ms);
  if (ms < 0 || ms > kMaxWaitMs) {
    fields.complain(name);
  }
  into = Millis(ms);
}

void read_tie(Fields& fields, Tie& into) {
  std::string tie;
  fields.read("tie", tie);
  for (Tie const each : {Tie::rank, Tie::fence, Tie::none}) {
    if (tie == name_of(each)) {
      into = each;
      return;
    }
  }
  fields.complain("tie");
}

void read_ballot(Fields& fields, char const* name, Ballot& into) {
  Json const& pair = fields.child(name);
  if (!pair.is_array() || pair.size() != 2 || !Fields::assign(pair[0], into.round) ||
      !Fields::assign(pair[1], into.rank)) {
    fields.complain(name);
  }
}

void read(Json const& json, Decree& decree, std::string& problem) {
  Fields fields(json, problem);
  fields.read("after", decree.after);
  fields.read("number", decree.number);
  fields.read("size", decree.size);
  fields.read("coordinator", decree.coordinator);
  fields.read("restarts", decree.restarts);
  fields.read("members", decree.members);
  read_tie(fields, decree.tie);
  if (decree.size > kMaxItems) {
    fields.complain("size");
  }
}

void read(Json const& json, std::vector<Successor>& successors, std::string& problem) {
  if (!json.is_array() || json.size() > kMaxSuccessors) {
    Fields(json, problem).complain("successors");
    return;
  }
  successors.clear();
  for (auto const& item : json) {
    Fields fields(item, problem);
    auto& each = successors.emplace_back();
    fields.read("rank", each.rank);
    fields.read("host", each.host);
    fields.read("address", each.address);
    fields.read("port", each.port);
  }
}

void read(Json const& json, Terms& terms, std::string& problem) {
  Fields fields(json, problem);
  auto const wait = [&](char const* name, Millis& into) { read_wait(fields, name, into); };
  fields.read("min_nodes", terms.min_nodes);
  fields.read("max_nodes", terms.max_nodes);
  fields.read_optional("expected_nodes", terms.expected_nodes);
  fields.read("max_restarts", terms.max_restarts);
  wait("join_window_ms", terms.join_window);
  wait("rejoin_window_ms", terms.rejoin_window);
  wait("join_timeout_ms", terms.join_timeout);
  wait("ack_timeout_ms", terms.ack_timeout);
  wait("heartbeat_timeout_ms", terms.heartbeat_timeout);
  wait("stop_timeout_ms", terms.stop_timeout);
  fields.read("agent_store", terms.agent_store);
  fields.read("master_port", terms.master_port);
  fields.read("scale_out_now", terms.scale_out_now);
  wait("restart_window_ms", terms.restart_window);
  wait("hang_timeout_ms", terms.hang_timeout);
  read_tie(fields, terms.tie);
  if (terms.min_nodes == 0 || terms.max_nodes < terms.min_nodes || terms.max_nodes > kMaxItems) {
    fields.complain("max_nodes");
  }
  if (terms.expected_nodes && (*terms.expected_nodes == 0 || *terms.expected_nodes > kMaxItems)) {
    fields.complain("expected_nodes");
  }
}

void read(Json const& json, Generation& g, std::string& problem) {
  Fields fields(json, problem);
  fields.read("number", g.number);
  fields.read("restarts", g.restarts);
  fields.read("max_restarts", g.max_restarts);
  fields.read("group_rank", g.group_rank);
  fields.read("group_size", g.group_size);
  fields.read("rank_base", g.rank_base);
  fields.read("local_size", g.local_size);
  fields.read("world_size", g.world_size);
  fields.read("role_base", g.role_base);
  fields.read("role_size", g.role_size);
  fields.read("master_addr", g.master_addr);
  fields.read("master_port", g.master_port);
  fields.read("store_port", g.store_port);
  fields.read("survives", g.survives);
  fields.read("coordinator", g.coordinator);
  read(fields.child("decree"), g.decree, problem);
  read(fields.child("successors"), g.successors, problem);
  fields.read_text_if_any("hosts", g.hosts);
  fields.read_text_if_any("local_sizes", g.local_sizes);
  if (g.hosts.size() > kMaxHostsText) {
    fields.complain("hosts");
  }
  if (g.local_sizes.size() > kMaxSizesText) {
    fields.complain("local_sizes");
  }
}

}  // namespace cxxrun::rendezvous
