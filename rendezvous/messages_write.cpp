#include <algorithm>

#include "rendezvous/message_json.hpp"

namespace cxxrun::rendezvous {
namespace {

// Longest texts that one Stopped message may carry in all, so that it fits a frame (1 MiB) with room to spare.
constexpr std::size_t kTextBudget = 256U << 10U;

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
            {"announce", node.announce}};
  if (node.node_index) {
    json["node_index"] = *node.node_index;
  }
  return json;
}

Json to_json(Generation const& g) {
  return Json{{"number", g.number},          {"restarts", g.restarts},       {"max_restarts", g.max_restarts},
              {"group_rank", g.group_rank},  {"group_size", g.group_size},   {"rank_base", g.rank_base},
              {"local_size", g.local_size},  {"world_size", g.world_size},   {"role_base", g.role_base},
              {"role_size", g.role_size},    {"master_addr", g.master_addr}, {"master_port", g.master_port},
              {"store_port", g.store_port},  {"successors", g.successors},   {"hosts", g.hosts},
              {"local_sizes", g.local_sizes}};
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
            {"master_port", t.master_port}};
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
  return Json{{"type", "ack"}, {"generation", m.number}};
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
Json to_json(Prepare const& m) {
  return Json{{"type", "generation"}, {"generation", to_json(m.generation)}};
}
Json to_json(Start const& m) {
  return Json{{"type", "start"}, {"generation", m.number}};
}
Json to_json(Stop const& m) {
  return Json{{"type", "stop"}, {"generation", m.number}, {"kind", name_of(m.kind)}, {"why", m.why}};
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
                   {"purpose", hello.purpose == Hello::Purpose::beat ? "beat" : "agent"},
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
