#include "launcher/view/table.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher::view {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kLongestMs = 100'000'000'000;  // three years
constexpr std::uint64_t kMostNumber = std::uint64_t{1} << 53U;
constexpr std::size_t kLongestText = 400;

/// The member of that name, or null.
Json const& at(Json const& json, char const* name) {
  static Json const none;
  auto const it = json.is_object() ? json.find(name) : json.end();
  return it == json.end() ? none : *it;
}

std::optional<std::uint64_t> number(Json const& json) {
  if (json.is_number_unsigned()) {
    return std::min(json.get<std::uint64_t>(), kMostNumber);
  }
  return json.is_number_integer() && json.get<std::int64_t>() >= 0 ? std::optional(json.get<std::uint64_t>())
                                                                   : std::nullopt;
}
std::uint64_t number(Json const& json, char const* name) {
  return number(at(json, name)).value_or(0);
}
std::optional<Millis> wait(Json const& json) {
  auto const ms = number(json);
  return ms ? std::optional(Millis(std::min(static_cast<std::int64_t>(*ms), kLongestMs))) : std::nullopt;
}
std::string raw(Json const& json, char const* name) {
  auto const& text = at(json, name);
  return text.is_string() ? text.get<std::string>() : "";
}
std::string text(Json const& json, char const* name) {
  return printable(raw(json, name), kLongestText);
}

Result<Json> read_object(std::string const& answer) {
  auto json = Json::parse(answer, nullptr, false);
  if (!json.is_object()) {
    return fail(Errc::protocol, "the answer is no JSON: another version of cxxrun runs there");
  }
  if (json.contains("error")) {
    return fail(Errc::refused, text(json, "error"));
  }
  return json;
}

/// The lines that are JSON objects.
std::vector<Json> read_lines(std::string const& answer, std::vector<std::string>& errors) {
  std::vector<Json> lines;
  for (auto const& line : split(answer, '\n')) {
    auto json = line.empty() ? Json() : Json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("error")) {
      errors.push_back(text(json, "error"));
    } else if (json.is_object()) {
      lines.push_back(std::move(json));
    }
  }
  return lines;
}

/// `gpu`: of the worker, if the row says that there is one.
void read_gpu(std::string const& name, std::uint64_t value, std::optional<live::Gpu>& gpu) {
  auto const small = static_cast<std::uint32_t>(std::min<std::uint64_t>(value, UINT32_MAX));
  if (name == "gpu" && small > 0) {
    gpu.emplace().number = small - 1;
  } else if (gpu && name == "gpu_percent") {
    gpu->percent = small;
  } else if (gpu && name == "gpu_mhz") {
    gpu->mhz = small;
  } else if (gpu && name == "gpu_max_mhz") {
    gpu->max_mhz = small;
  } else if (gpu && name == "throttled") {
    gpu->throttled = live::throttle_in(small);
  }
}

/// `columns`: the names that the answer itself gives to the numbers of a row.
Worker read_worker(Json const& row, std::vector<std::string> const& columns) {
  Worker worker;
  for (std::size_t i = 0; row.is_array() && i < std::min(row.size(), columns.size()); ++i) {
    auto const& name = columns[i];
    auto const value = number(row[i]).value_or(0);
    if (name == "step") {
      worker.step = value;
    } else if (name == "step_ago_ms") {
      worker.step_ago = wait(row[i]);
    } else if (name == "per_step_ms") {
      worker.per_step = wait(row[i]);
    } else if (name == "begun") {
      worker.begun = value;
    } else if (name == "waits") {
      worker.waits = value != 0;
    } else if (name == "memory_mib") {
      worker.memory_mib = value;
    } else if (name == "processor_permille") {
      worker.permille = value;
    } else if (name == "state" && value > ' ' && value < 127) {
      worker.state = static_cast<char>(value);
    } else {
      read_gpu(name, value, worker.gpu);
    }
  }
  return worker;
}

Node read_node(Json const& json, std::vector<std::string> const& columns) {
  Node node;
  node.host = text(json, "host");
  node.generation = number(json, "generation");
  node.heard_ago = wait(at(json, "heard_ago_ms")).value_or(Millis{0});
  auto const first = number(json, "first_rank");
  auto const gpu = static_cast<std::size_t>(std::find(columns.begin(), columns.end(), "gpu") - columns.begin());
  for (auto const& row : at(json, "ranks")) {
    node.workers.push_back(read_worker(row, columns));
    node.workers.back().rank = static_cast<std::uint32_t>(first + node.workers.size() - 1);
    node.gpus_silent =
        node.gpus_silent || (gpu < columns.size() && row.is_array() && gpu < row.size() && row[gpu] == -1);
  }
  return node;
}

std::optional<rendezvous::Account> read_account(Json const& json) {
  if (!json.is_object()) {
    return std::nullopt;
  }
  rendezvous::Account account;
  for (auto const spent : rendezvous::kAllSpent) {
    account[spent] = wait(at(json, (name_of(spent) + std::string("_ms")).c_str())).value_or(Millis{0});
  }
  return account;
}

Table::Event read_event(Json const& json) {
  auto const& seconds = at(json, "at_s");
  double const at_ms = seconds.is_number() ? seconds.get<double>() * 1000 : 0;
  Table::Event event{Millis(static_cast<std::int64_t>(std::clamp(at_ms, 0.0, static_cast<double>(kLongestMs)))), ""};
  event.text = replace_all(text(json, "kind"), "_", " ");
  if (auto const rank = number(at(json, "rank"))) {
    event.text += " rank " + std::to_string(*rank);
  }
  for (auto const* const name : {"host", "how", "why", "summary", "verb", "by"}) {
    auto const more = text(json, name);
    event.text += more.empty() ? "" : (name == std::string_view("host") ? " " : ": ") + more;
  }
  return event;
}

}  // namespace

Result<Who> read_who(std::string const& answer) {
  auto const json = read_object(answer);
  return json ? Result<Who>(Who{text(*json, "run_id"), text(*json, "step"), text(*json, "host")}) : json.error();
}

Result<Table> read_table(std::string const& answer) {
  auto const read = read_object(answer);
  if (!read) {
    return read.error();
  }
  auto const& json = *read;
  Table table;
  table.run_id = text(json, "run_id");
  table.coordinator = text(json, "coordinator");
  table.program = text(json, "program");
  table.phase = text(json, "phase");
  table.phase_age = wait(at(json, "phase_ms")).value_or(Millis{0});
  table.job_age = wait(at(json, "job_ms")).value_or(Millis{0});
  table.generation = number(json, "generation");
  table.generation_age = wait(at(json, "generation_ms"));
  table.nodes = number(json, "nodes");
  table.ranks = number(json, "ranks");
  table.restarts = number(json, "restarts");
  table.max_restarts = number(at(json, "max_restarts"));
  table.nodes_lost = number(at(json, "nodes_lost"));
  table.checkpoint_age = wait(at(json, "checkpoint_ago_ms"));
  table.hour_ago_per_step = wait(at(json, "hour_ago_per_step_ms"));
  table.account = read_account(at(json, "account"));
  table.steps_known = at(at(json, "account"), "steps_known") == true;
  table.why = text(json, "why");
  std::vector<std::string> columns;
  for (auto const& name : at(json, "figures")) {
    columns.push_back(name.is_string() ? name.get<std::string>() : "");
  }
  for (auto const& node : at(json, "members")) {
    table.members.push_back(read_node(node, columns));
    auto const& workers = table.members.back().workers;
    table.gpus = table.gpus || std::any_of(workers.begin(), workers.end(), [](auto const& each) { return each.gpu; });
  }
  std::stable_sort(table.members.begin(), table.members.end(), [](Node const& a, Node const& b) {
    auto const first = [](Node const& node) { return node.workers.empty() ? UINT32_MAX : node.workers.front().rank; };
    return first(a) < first(b);
  });
  for (auto const& slow : at(json, "slow")) {
    table.slow.push_back({static_cast<std::uint32_t>(number(slow, "rank")),
                          static_cast<std::uint32_t>(number(slow, "ranks")), text(slow, "host"),
                          wait(at(slow, "late_ms")).value_or(Millis{0}), number(slow, "percent"), text(slow, "source"),
                          text(slow, "spent"), text(slow, "says")});
  }
  for (auto const& event : at(json, "events")) {
    if (at(event, "kind") != "time") {
      table.events.push_back(read_event(event));
    }
  }
  return table;
}

Result<Table> read_table(Result<std::string> const& answer) {
  return answer ? read_table(*answer) : answer.error();
}

std::optional<std::uint64_t> goodput(Table const& table) {
  if (!table.account || !table.steps_known || table.job_age <= Millis{0}) {
    return std::nullopt;
  }
  auto const training = std::min((*table.account)[rendezvous::Spent::training], table.job_age);
  return static_cast<std::uint64_t>(training.count() * 1000 / table.job_age.count());
}

std::vector<std::uint32_t> slow_ranks(Table const& table, std::size_t most) {
  std::vector<std::uint32_t> ranks;
  for (auto const& slow : table.slow) {
    for (std::uint32_t i = 0; i < slow.ranks && ranks.size() < most; ++i) {
      ranks.push_back(slow.rank + i);
    }
  }
  return ranks;
}

Items<Stack> read_stacks(std::string const& answer) {
  Items<Stack> stacks;
  for (auto const& json : read_lines(answer, stacks.errors)) {
    Stack stack{static_cast<std::uint32_t>(number(json, "rank")), text(json, "host"), text(json, "place"), {}};
    for (auto const& frame : at(json, "frames")) {
      stack.frames.push_back(frame.is_string() ? printable(frame.get<std::string>(), kLongestText) : "?");
    }
    stacks.items.push_back(std::move(stack));
  }
  return stacks;
}

Items<Tail> read_tails(std::string const& answer) {
  Items<Tail> tails;
  for (auto const& json : read_lines(answer, tails.errors)) {
    tails.items.push_back({static_cast<std::uint32_t>(number(json, "rank")), text(json, "host"), text(json, "file"),
                           raw(json, "text"), number(json, "left_out"), live::parse_place(raw(json, "place"))});
  }
  return tails;
}

Change read_change(std::string const& answer) {
  Change change;
  for (auto const& json : read_lines(answer, change.errors)) {
    change.done += text(json, "done");
    change.asked += number(json, "asked");
    change.workers += number(json, "workers");
  }
  return change;
}

Events read_events(std::string const& answer) {
  Events events;
  for (auto& json : read_lines(answer, events.errors)) {
    if (json.contains("nonce")) {
      events.nonce = text(json, "nonce");
      continue;
    }
    auto const count = number(json, "number");
    json.erase("number");
    events.items.push_back(
        {count, json.dump(-1, ' ', true, Json::error_handler_t::replace), at(json, "kind") == "verdict"});
  }
  return events;
}

std::uint64_t Bookmark::after() const {
  auto const known = read.find(nonce);
  return known == read.end() ? 0 : known->second;
}

std::string events_file(std::vector<Event> const& events) {
  std::string text = "{\"version\":1}\n";
  for (auto const& event : events) {
    text += event.line + "\n";
  }
  return text;
}

void advance(Bookmark& mark, Events& events) {
  if (!events.nonce.empty()) {  // else nobody coordinates now, or a part of the answer goes on
    mark.nonce = events.nonce;
  }
  auto const known = mark.after();
  std::erase_if(events.items, [known](Event const& event) { return event.number <= known; });
  if (!events.items.empty()) {
    events.missed = known > 0 ? events.items.front().number - known - 1 : 0;
    mark.read[mark.nonce] = events.items.back().number;
  }
}

std::string table_json(Table const& table, std::string const& says, bool well) {
  Json json{{"version", 1},
            {"run_id", table.run_id},
            {"says", says},
            {"well", well},
            {"phase", table.phase},
            {"phase_ms", table.phase_age.count()},
            {"job_ms", table.job_age.count()},
            {"program", table.program},
            {"coordinator", table.coordinator},
            {"generation", table.generation},
            {"nodes", table.nodes},
            {"ranks", table.ranks},
            {"restarts", table.restarts},
            {"why", table.why}};
  if (table.max_restarts) {
    json["max_restarts"] = *table.max_restarts;
  }
  if (table.nodes_lost) {
    json["nodes_lost"] = *table.nodes_lost;
  }
  if (table.checkpoint_age) {
    json["checkpoint_ago_ms"] = table.checkpoint_age->count();
  }
  if (table.hour_ago_per_step) {
    json["hour_ago_per_step_ms"] = table.hour_ago_per_step->count();
  }
  if (table.account) {
    auto& account = json["account"] = Json::object();
    for (auto const spent : rendezvous::kAllSpent) {
      account[name_of(spent) + std::string("_ms")] = (*table.account)[spent].count();
    }
    account["steps_known"] = table.steps_known;
    if (auto const permille = goodput(table)) {
      account["goodput_percent"] = static_cast<double>(*permille) / 10;
    }
  }
  auto& all_slow = json["slow"] = Json::array();
  for (auto const& slow : table.slow) {
    all_slow.push_back({{"rank", slow.rank},
                        {"ranks", slow.ranks},
                        {"host", slow.host},
                        {"late_ms", slow.late.count()},
                        {"percent", slow.percent},
                        {"source", slow.source},
                        {"spent", slow.spent}});
  }
  auto& workers = json["workers"] = Json::array();
  for (auto const& node : table.members) {
    for (auto const& worker : node.workers) {
      Json row{{"rank", worker.rank}, {"host", node.host}, {"generation", node.generation}, {"step", worker.step}};
      if (worker.step_ago) {
        row["step_ago_ms"] = worker.step_ago->count();
      }
      if (worker.per_step) {
        row["per_step_ms"] = worker.per_step->count();
      }
      row.update(Json{{"begun", worker.begun},
                      {"waits", worker.waits},
                      {"memory_mib", worker.memory_mib},
                      {"processor_permille", worker.permille},
                      {"state", std::string(1, worker.state)},
                      {"heard_ago_ms", node.heard_ago.count()}});
      if (auto const& gpu = worker.gpu) {
        row["gpu_percent"] = gpu->percent;
        for (auto const& [name, mhz] : {std::pair("gpu_mhz", gpu->mhz), std::pair("gpu_max_mhz", gpu->max_mhz)}) {
          if (mhz > 0) {
            row[name] = mhz;
          }
        }
        row["throttled"] = live::name_of(gpu->throttled);
      }
      workers.push_back(std::move(row));
    }
  }
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace cxxrun::launcher::view
