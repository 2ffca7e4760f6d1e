#include <algorithm>

#include "rendezvous/protocol/message_json.hpp"

namespace cxxrun::rendezvous {
namespace {

// Longest texts that one Stopped message may carry in all, so that it fits a frame (1 MiB) with room to spare.
constexpr std::size_t kTextBudget = 256U << 10U;
constexpr std::size_t kHungBytes = 500;  // our own sentence

std::string dump(Json const& json) {
  // Workers print what they like: bytes that are not UTF-8 become U+FFFD.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string take(std::string const& text, std::size_t& budget) {
  std::size_t const length = std::min(text.size(), budget);
  budget -= length;
  return text.substr(text.size() - length);  // the end of a text says more than its start
}

Json to_json(WorkerExit const& exit, std::size_t& budget) {
  Json json{{"rank", exit.rank},
            {"local_rank", exit.local_rank},
            {"pid", exit.pid},
            {"end", name_of(exit.status.kind)},
            {"value", exit.status.value},
            {"core", exit.status.core_dumped},
            {"ours", exit.ours},
            {"wall_ms", exit.wall_ms}};
  if (!exit.hung.empty()) {
    json["hung"] = exit.hung.substr(0, kHungBytes);
  }
  if (!exit.status.ok()) {
    json["stderr"] = take(exit.stderr_tail, budget);
    json["error_file"] = take(exit.error_file, budget);
  }
  return json;
}

Json to_json(NodeInfo const& node) {
  Json json{{"incarnation", node.incarnation},
            {"host", node.host},
            {"slots", node.slots},
            {"role", node.role},
            {"hosts", node.hosts},
            {"announce", node.announce},
            {"standby_port", node.standby_port}};
  if (node.node_index) {
    json["node_index"] = *node.node_index;
  }
  return json;
}

Json to_json(Ballot const& ballot) {
  return Json::array({ballot.round, ballot.rank});
}

Json to_json(Decree const& d) {
  return Json{{"after", d.after},     {"number", d.number},           {"size", d.size},       {"restarts", d.restarts},
              {"members", d.members}, {"coordinator", d.coordinator}, {"tie", name_of(d.tie)}};
}

Json to_json(std::vector<Successor> const& successors) {
  Json list = Json::array();
  for (auto const& each : successors) {
    list.push_back(Json{{"rank", each.rank}, {"host", each.host}, {"address", each.address}, {"port", each.port}});
  }
  return list;
}

Json to_json(Generation const& g) {
  return Json{{"number", g.number},
              {"restarts", g.restarts},
              {"max_restarts", g.max_restarts},
              {"group_rank", g.group_rank},
              {"group_size", g.group_size},
              {"rank_base", g.rank_base},
              {"local_size", g.local_size},
              {"world_size", g.world_size},
              {"role_base", g.role_base},
              {"role_size", g.role_size},
              {"master_addr", g.master_addr},
              {"master_port", g.master_port},
              {"store_port", g.store_port},
              {"hosts", g.hosts},
              {"local_sizes", g.local_sizes},
              {"survives", g.survives},
              {"coordinator", g.coordinator},
              {"decree", to_json(g.decree)},
              {"successors", to_json(g.successors)}};
}

Json to_json(Terms const& t) {
  Json json{{"min_nodes", t.min_nodes},
            {"max_nodes", t.max_nodes},
            {"max_restarts", t.max_restarts},
            {"join_window_ms", t.join_window.count()},
            {"rejoin_window_ms", t.rejoin_window.count()},
            {"join_timeout_ms", t.join_timeout.count()},
            {"ack_timeout_ms", t.ack_timeout.count()},
            {"heartbeat_timeout_ms", t.heartbeat_timeout.count()},
            {"stop_timeout_ms", t.stop_timeout.count()},
            {"agent_store", t.agent_store},
            {"master_port", t.master_port},
            {"tie", name_of(t.tie)},
            {"scale_out_now", t.scale_out_now},
            {"restart_window_ms", t.restart_window.count()},
            {"hang_timeout_ms", t.hang_timeout.count()}};
  if (t.expected_nodes) {
    json["expected_nodes"] = *t.expected_nodes;
  }
  return json;
}

Json to_json(Join const& m) {
  Json json{{"type", "join"}, {"node", to_json(m.node)}};
  if (m.terms) {
    json["terms"] = to_json(*m.terms);
  }
  return json;
}
Json to_json(Ack const& m) {
  return Json{{"type", "ack"}, {"generation", m.number}, {"echo", m.echo}, {"sent", m.sent}};
}
Json to_json(Elector const& m) {
  Json json{{"type", "elector"},      {"node", to_json(m.node)}, {"decided", to_json(m.decided)},
            {"prepared", m.prepared}, {"seen", m.seen},          {"workers", m.workers}};
  if (m.rank) {
    json["rank"] = *m.rank;
  }
  if (m.prepared_rank) {
    json["prepared_rank"] = *m.prepared_rank;
  }
  return json;
}
Json to_json(Vote const& m) {
  Json json{{"type", "vote"},
            {"after", m.after},
            {"ballot", to_json(m.ballot)},
            {"promised", to_json(m.promised)},
            {"silent_for_ms", m.silent_for.count()}};
  if (m.accepted) {
    json["accepted_ballot"] = to_json(m.accepted->ballot);
    json["accepted_decree"] = to_json(m.accepted->decree);
  }
  return json;
}
Json to_json(Accepted const& m) {
  return Json{
      {"type", "accepted"}, {"after", m.after}, {"ballot", to_json(m.ballot)}, {"promised", to_json(m.promised)}};
}
Json to_json(Gone const& m) {
  return Json{{"type", "gone"}, {"generation", m.number}, {"group_rank", m.group_rank}};
}
Json to_json(WorkerFailed const& m) {
  std::size_t budget = 0;
  return Json{{"type", "worker_failed"}, {"generation", m.number}, {"exit", to_json(m.exit, budget)}};
}
Json to_json(Succeeded const& m) {
  return Json{{"type", "succeeded"}, {"generation", m.number}};
}
Json to_json(Stopped const& m) {
  std::size_t budget = kTextBudget;
  Json exits = Json::array();
  for (bool const ours : {false, true}) {  // failures that need explaining have first claim on the budget
    for (auto const& exit : m.exits) {
      if (exit.ours == ours) {
        exits.push_back(to_json(exit, budget));
      }
    }
  }
  return Json{{"type", "stopped"}, {"generation", m.number}, {"exits", exits}, {"unkillable", m.unkillable}};
}
Json to_json(Leaving const& m) {
  return Json{{"type", "leaving"}, {"signal", m.signal}};
}
Json to_json(Unfit const& m) {
  return Json{{"type", "unfit"}, {"generation", m.number}, {"why", m.why}};
}
Json to_json(Progress const& m) {
  Json workers = Json::array();
  for (std::size_t i = 0; i < std::min(m.workers.size(), kMaxProgress); ++i) {
    auto const& each = m.workers[i];
    workers.push_back(Json{{"rank", each.rank},
                           {"entered", each.entered},
                           {"done", each.done},
                           {"what", each.what},
                           {"count", each.count},
                           {"still_ms", each.still.count()},
                           {"halted", each.halted}});
  }
  return Json{{"type", "progress"}, {"generation", m.number}, {"workers", workers}};
}
Json to_json(Prepare const& m) {
  return Json{{"type", "generation"}, {"generation", to_json(m.generation)}, {"sent", m.sent}};
}
Json to_json(Start const& m) {
  return Json{{"type", "start"}, {"generation", m.number}, {"echo", m.echo}, {"left_ms", m.left.count()}};
}
Json to_json(VoteRequest const& m) {
  return Json{{"type", "vote?"}, {"after", m.after}, {"ballot", to_json(m.ballot)}};
}
Json to_json(Propose const& m) {
  return Json{{"type", "propose"}, {"ballot", to_json(m.ballot)}, {"decree", to_json(m.decree)}};
}
Json to_json(Decided const& m) {
  return Json{
      {"type", "decided"}, {"decree", to_json(m.decree)}, {"successors", to_json(m.successors)}, {"leads", m.leads}};
}
Json to_json(Dropped const& m) {
  return Json{{"type", "dropped"}, {"generation", m.number}, {"why", m.why}};
}
Json to_json(Stop const& m) {
  return Json{{"type", "stop"}, {"generation", m.number}, {"kind", name_of(m.kind)}, {"why", m.why}};
}
Json to_json(Kill const& m) {
  return Json{{"type", "kill"}, {"generation", m.number}, {"rank", m.rank}, {"entered", m.entered}, {"why", m.why}};
}
Json to_json(Finished const& m) {
  return Json{{"type", "finished"}, {"exit_code", m.exit_code}, {"line", m.line}};
}
Json to_json(Refused const& m) {
  return Json{{"type", "refused"}, {"exit_code", m.exit_code}, {"why", m.why}};
}

}  // namespace

std::string encode(Hello const& hello) {
  return dump(Json{{"hello", "cxxrun"},
                   {"version", hello.version},
                   {"run_id", hello.run_id},
                   {"nonce", hello.nonce},
                   {"purpose", name_of(hello.purpose)},
                   {"asks", name_of(hello.asks)}});
}

std::string encode(HelloReply const& reply) {
  return dump(Json{{"hello", "cxxrun"},
                   {"version", reply.version},
                   {"coordinator", reply.coordinator},
                   {"run_id", reply.run_id},
                   {"heartbeat_timeout_ms", reply.heartbeat_timeout.count()},
                   {"answer", name_of(reply.why)},
                   {"refused", reply.refused}});
}

std::string encode(ToCoordinator const& message) {
  return std::visit([](auto const& m) { return dump(to_json(m)); }, message);
}

std::string encode(ToAgent const& message) {
  return std::visit([](auto const& m) { return dump(to_json(m)); }, message);
}

}  // namespace cxxrun::rendezvous
