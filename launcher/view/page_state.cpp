#include "launcher/view/page_state.hpp"

#include <algorithm>
#include <cstdint>
#include <set>

#include <nlohmann/json.hpp>

#include "launcher/view/figures.hpp"
#include "launcher/view/status_text.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::view {
namespace {

using Value = nlohmann::json;

constexpr char const* kTrouble = "trouble";

std::string json_text(Value const& json) {
  return json.dump(-1, ' ', false, Value::error_handler_t::replace);
}
/// Null where it is not known.
Value ms(std::optional<Millis> duration) {
  return duration ? Value(duration->count()) : Value();
}
Value seconds(std::optional<Millis> duration) {
  return duration ? Value(duration->count() / 1000) : Value();
}

/// What a cell of the page says: of a rank, or of all ranks of a node.
struct Cell {
  std::uint64_t behind = 0;     ///< steps, from the furthest rank
  std::uint64_t unbegun = 0;    ///< collectives, from the rank that has begun the most
  std::optional<Millis> extra;  ///< time of a step, from the usual one
  std::uint64_t waits = 0;
  std::uint64_t memory_mib = 0;  ///< the most
  std::uint64_t percent = 0;     ///< of a processor
  std::string state;
  std::optional<std::uint32_t> gpu;  ///< percent; of a node, of the one that is least busy
};

/// The figures are told as differences from these: most are 0 then.
struct Reference {
  explicit Reference(std::vector<Placed> const& workers)
      : step(most_of(workers, &Worker::step)), begun(most_of(workers, &Worker::begun)), usual(usual_step(workers)) {}
  std::uint64_t step;
  std::uint64_t begun;
  std::optional<Millis> usual;
};

Cell cell_of(Worker const& worker, Reference const& of) {
  return {of.step - worker.step,
          of.begun - worker.begun,
          worker.per_step && of.usual ? std::optional(*worker.per_step - *of.usual) : std::nullopt,
          worker.waits ? 1U : 0U,
          worker.memory_mib,
          worker.permille / 10,
          {worker.state},
          worker.gpu ? std::optional(worker.gpu->percent) : std::nullopt};
}

Cell cell_of(Node const& node, Reference const& of) {
  Cell all;
  std::set<char> letters;
  for (auto const& worker : node.workers) {
    auto const one = cell_of(worker, of);
    all.behind = std::max(all.behind, one.behind);
    all.unbegun = std::max(all.unbegun, one.unbegun);
    all.extra = one.extra ? std::optional(std::max(*one.extra, all.extra.value_or(*one.extra))) : all.extra;
    all.waits += one.waits;
    all.memory_mib = std::max(all.memory_mib, one.memory_mib);
    all.percent += one.percent;
    letters.insert(worker.state);
    all.gpu = one.gpu ? std::min(*one.gpu, all.gpu.value_or(*one.gpu)) : all.gpu;
  }
  all.state.assign(letters.begin(), letters.end());
  return all;
}

Value percent_of_gpu(Cell const& cell) {
  return cell.gpu ? Value(*cell.gpu) : Value();
}

/// The figures as columns. That of GPUs is empty where none is known.
void put_cells(PageState& state, std::vector<Cell> const& cells, bool gpus) {
  auto const column = [&](char const* name, auto const& value) {
    auto all = Value::array();
    for (auto const& cell : cells) {
      all.push_back(value(cell));
    }
    state.emplace_back(name, json_text(all));
  };
  column("behind", [](Cell const& cell) { return cell.behind; });
  column("unbegun", [](Cell const& cell) { return cell.unbegun; });
  column("extra_ms", [](Cell const& cell) { return ms(cell.extra); });
  column("waits", [](Cell const& cell) { return cell.waits; });
  column("memory_mib", [](Cell const& cell) { return cell.memory_mib; });
  column("cpu", [](Cell const& cell) { return cell.percent; });
  column("state", [](Cell const& cell) { return cell.state; });
  if (gpus) {
    column("gpu", percent_of_gpu);
  } else {
    state.emplace_back("gpu", "[]");
  }
}

void put_nodes(PageState& state, std::vector<Node const*> const& nodes) {
  auto hosts = Value::array();
  auto firsts = Value::array();
  auto counts = Value::array();
  auto heard = Value::array();
  for (auto const* const node : nodes) {
    hosts.push_back(node->host);
    firsts.push_back(node->workers.front().rank);
    counts.push_back(node->workers.size());
    heard.push_back(node->heard_ago.count() / 1000);
  }
  state.emplace_back("hosts", json_text(hosts));
  state.emplace_back("firsts", json_text(firsts));
  state.emplace_back("counts", json_text(counts));
  state.emplace_back("heard_s", json_text(heard));
}

Value far_of(Table const& table, Reference const& of) {
  auto rows = Value::array();
  for (auto const& [worker, node] : furthest(table)) {
    auto const cell = cell_of(*worker, of);
    rows.push_back({worker->rank, node->host, cell.behind, cell.unbegun, ms(cell.extra), cell.waits, cell.memory_mib,
                    cell.percent, cell.state, percent_of_gpu(cell)});
  }
  return rows;
}

Value slow_of(Table const& table) {
  auto rows = Value::array();
  for (auto const& slow : table.slow) {
    rows.push_back({slow.rank, slow.ranks, slow.host, slow.late.count(), slow.percent, slow.spent, slow.source});
  }
  return rows;
}

/// [what, seconds] of each part; none: not known.
Value account_of(Table const& table) {
  auto parts = Value::array();
  if (table.account) {
    for (auto const spent : rendezvous::kAllSpent) {
      parts.push_back({name_of(spent), (*table.account)[spent].count() / 1000});
    }
  }
  return parts;
}

Value events_of(Table const& table) {
  auto rows = Value::array();
  for (auto const& event : table.events) {
    rows.push_back({event.at.count() / 1000, event.text});
  }
  return rows;
}

std::string event(char const* kind, std::string const& json) {
  return std::string("event: ") + kind + "\ndata: " + json + "\n\n";
}

/// The fields of `now` but those that `before` has, too.
std::string object(PageState const& now, PageState const* before) {
  std::string text = "{";
  for (std::size_t i = 0; i < now.size(); ++i) {
    bool const same = before != nullptr && before->size() == now.size() && (*before)[i].second == now[i].second;
    if (!same) {
      text.append(text.size() > 1 ? "," : "").append("\"").append(now[i].first).append("\":").append(now[i].second);
    }
  }
  return text + "}";
}

}  // namespace

PageState page_state(Table const& table) {
  auto const workers = workers_now(table);
  Reference const of(workers);
  std::vector<Node const*> nodes;
  for (auto const& node : table.members) {
    if (node.generation == table.generation && !node.workers.empty()) {
      nodes.push_back(&node);
    }
  }
  bool const by_node = workers.size() > kMostCells;
  std::vector<Cell> cells;
  for (auto const* const node : nodes) {
    if (by_node) {
      cells.push_back(cell_of(*node, of));
      continue;
    }
    std::transform(node->workers.begin(), node->workers.end(), std::back_inserter(cells),
                   [&](Worker const& worker) { return cell_of(worker, of); });
  }
  auto const [sentence, well] = judge(table);
  auto const newest = newest_step(workers);
  PageState state{{kTrouble, "\"\""}};
  auto const put = [&](char const* name, Value const& value) { state.emplace_back(name, json_text(value)); };
  put("run", table.run_id);
  put("program", table.program);
  put("coordinator", table.coordinator);
  put("phase", table.phase);
  put("says", sentence);
  put("well", well);
  put("job_s", seconds(table.job_age));
  put("generation", table.generation);
  put("generation_s", seconds(table.generation_age));
  auto const trained = goodput(table);
  put("goodput", trained ? Value(percent_text(*trained)) : Value());
  put("spent", account_of(table));
  put("checkpoint_s", seconds(table.checkpoint_age));
  put("restarts", table.restarts);
  put("max_restarts", table.max_restarts ? Value(*table.max_restarts) : Value());
  put("nodes", table.nodes);
  put("ranks", table.ranks);
  put("steps", newest ? Value(of.step) : Value());
  put("step_ms", ms(of.usual));
  put("begun", of.begun);
  put("slow", slow_of(table));
  put("events", events_of(table));
  put("others", table.members.size() - nodes.size());
  put("by", by_node ? "node" : "rank");
  put("far", by_node ? far_of(table, of) : Value::array());
  put_nodes(state, nodes);
  put_cells(state, cells, table.gpus);
  return state;
}

PageState with_trouble(PageState state, std::string const& why) {
  if (state.empty()) {
    state.emplace_back(kTrouble, "");
  }
  state.front().second = json_text(printable(why));
  return state;
}

std::string state_json(PageState const& state) {
  return object(state, nullptr) + "\n";
}
std::string all_event(PageState const& state) {
  return event("all", object(state, nullptr));
}
std::string tick_event(PageState const& before, PageState const& now) {
  return event("tick", object(now, &before));
}
std::string over_event(std::string const& why) {
  return event("over", json_text(printable(why)));
}

std::string tails_json(Items<Tail> const& tails) {
  auto files = Value::array();
  for (auto const& tail : tails.items) {
    files.push_back({{"host", tail.host}, {"file", tail.file}, {"text", printable_lines(tail.text)}});
  }
  return json_text({{"files", files}, {"errors", tails.errors}}) + "\n";
}

std::string stacks_json(Items<Stack> const& stacks) {
  auto all = Value::array();
  for (auto const& stack : stacks.items) {
    all.push_back({{"rank", stack.rank}, {"host", stack.host}, {"place", stack.place}, {"frames", stack.frames}});
  }
  return json_text({{"stacks", all}, {"errors", stacks.errors}}) + "\n";
}

std::string page_error_json(std::string const& why) {
  return json_text({{"error", printable(why)}}) + "\n";
}

}  // namespace cxxrun::launcher::view
