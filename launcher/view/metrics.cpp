#include "cxxrun/version.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "launcher/view/figures.hpp"
#include "launcher/view/metrics.hpp"
#include "launcher/view/status_text.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::view {
namespace {

/// Names and values of the labels of a sample, beside that of the run.
using Labels = std::vector<std::pair<char const*, std::string>>;

std::string in_seconds(Millis duration) {
  auto text = seconds_text(std::max(duration, Millis{0}));
  return text.substr(0, text.size() - 2);  // without the unit
}
std::string as_ratio(std::uint64_t permille) {
  return in_seconds(Millis(static_cast<std::int64_t>(std::min<std::uint64_t>(permille, INT32_MAX))));
}

std::string label_value(std::string text) {
  text = replace_all(plain(std::move(text)), "\\", "\\\\");
  return replace_all(replace_all(text, "\"", "\\\""), "\n", "\\n");
}

class Metrics {
 public:
  explicit Metrics(std::string const& run) : run_("{run=\"" + label_value(run) + "\"") {}

  /// Begins a metric; its samples follow.
  void begin(char const* name, char const* type, char const* help) {
    name_ = std::string("cxxrun_") + name;
    text_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  void sample(std::string const& value, Labels const& labels = {}) {
    text_ += name_ + run_;
    for (auto const& [name, of_label] : labels) {
      text_ += std::string(",") + name + "=\"" + label_value(of_label) + "\"";
    }
    text_ += "} " + value + "\n";
  }
  void gauge(char const* name, char const* help, std::string const& value, Labels const& labels = {}) {
    begin(name, "gauge", help);
    sample(value, labels);
  }
  [[nodiscard]] std::string take() && { return std::move(text_); }

 private:
  std::string run_;
  std::string name_;
  std::string text_;
};

void say_job(Metrics& metrics, Table const& table) {
  metrics.gauge("job_info", "What runs, and where it is coordinated.", "1",
                {{"program", table.program}, {"coordinator", table.coordinator}});
  metrics.begin("state", "gauge", "1 for the state that the job is in.");
  for (std::string const state : {"waiting", "starting", "running", "stopping", "over"}) {
    metrics.sample(state == table.phase ? "1" : "0", {{"state", state}});
  }
  metrics.gauge("well", "1: the job trains, runs or starts; 0: it stands still, stops or waits.",
                judge(table).well ? "1" : "0");
  metrics.gauge("job_age_seconds", "Time since the job began.", in_seconds(table.job_age));
  metrics.gauge("generation", "Number of the generation.", std::to_string(table.generation));
  if (table.generation_age) {
    metrics.gauge("generation_age_seconds", "Time since the generation was formed.", in_seconds(*table.generation_age));
  }
  metrics.gauge("nodes", "Nodes of the generation.", std::to_string(table.nodes));
  metrics.gauge("ranks", "Ranks of the generation.", std::to_string(table.ranks));
  metrics.begin("restarts_total", "counter", "Restarts that were used up.");
  metrics.sample(std::to_string(table.restarts));
  if (table.nodes_lost) {
    metrics.begin("nodes_lost_total", "counter", "Nodes that were lost, as far as the coordinator knows.");
    metrics.sample(std::to_string(*table.nodes_lost));
  }
  if (table.max_restarts) {
    metrics.gauge("restarts_limit", "Restarts that the job has.", std::to_string(*table.max_restarts));
  }
}

void say_account(Metrics& metrics, Table const& table) {
  if (table.account) {
    metrics.begin("spent_seconds_total", "counter", "Time of the job, as far as it is known what it was spent on.");
    for (auto const spent : rendezvous::kAllSpent) {
      metrics.sample(in_seconds((*table.account)[spent]), {{"on", name_of(spent)}});
    }
  }
  if (auto const permille = goodput(table)) {
    metrics.gauge("goodput_ratio", "The part of the time of the job that was training.", as_ratio(*permille));
  }
  if (table.checkpoint_age) {
    metrics.gauge("checkpoint_age_seconds", "Age of what the newest known checkpoint holds.",
                  in_seconds(*table.checkpoint_age));
  }
}

void say_steps(Metrics& metrics, std::vector<Placed> const& workers) {
  auto const newest = newest_step(workers);
  if (!newest) {
    return;  // the program reports no steps
  }
  metrics.gauge("step", "Training steps that the furthest rank has completed; less after a restart.",
                std::to_string(most_of(workers, &Worker::step)));
  metrics.gauge("last_step_age_seconds", "Time since any rank completed a step.", in_seconds(*newest));
  if (auto const usual = usual_step(workers)) {
    Millis slowest{0};
    for (auto const& each : workers) {
      slowest = std::max(slowest, each.worker->per_step.value_or(Millis{0}));
    }
    metrics.begin("step_seconds", "gauge",
                  "Mean time of a step over ten seconds: of the median rank and of the slowest.");
    metrics.sample(in_seconds(*usual), {{"stat", "median"}});
    metrics.sample(in_seconds(slowest), {{"stat", "slowest"}});
  }
}

void say_slow(Metrics& metrics, Table const& table) {
  if (table.slow.empty()) {
    return;
  }
  metrics.begin("rank_late_seconds", "gauge",
                "By how much the others wait for this rank in each step, where it is slow.");
  for (auto const& slow : table.slow) {
    metrics.sample(
        in_seconds(slow.late),
        {{"rank", std::to_string(slow.rank) +
                      (slow.ranks > 1 ? "-" + std::to_string(std::uint64_t{slow.rank} + slow.ranks - 1) : "")},
         {"host", slow.host},
         {"source", slow.source}});
  }
}

void say_nodes(Metrics& metrics, Table const& table) {
  if (table.members.empty()) {
    return;
  }
  metrics.begin("node_last_pulse_age_seconds", "gauge", "Time since the node told of its workers.");
  for (auto const& node : table.members) {
    metrics.sample(in_seconds(node.heard_ago), {{"host", node.host}});
  }
}

void say_ranks(Metrics& metrics, std::vector<Placed> const& workers) {
  struct Metric {
    char const* name;
    char const* type;
    char const* help;
    std::string (*value)(Worker const&);
  };
  static constexpr std::array<Metric, 6> kOfRanks{{
      {"rank_step", "gauge", "Training steps that the rank has completed.",
       [](Worker const& worker) { return std::to_string(worker.step); }},
      {"rank_collectives_begun", "gauge", "Collectives that the rank has begun in this generation.",
       [](Worker const& worker) { return std::to_string(worker.begun); }},
      {"rank_waits", "gauge", "1: the rank is in a collective.",
       [](Worker const& worker) { return std::string(worker.waits ? "1" : "0"); }},
      {"rank_resident_bytes", "gauge", "Memory that the process of the rank has resident.",
       [](Worker const& worker) { return std::to_string(worker.memory_mib << 20U); }},
      {"rank_cpu_ratio", "gauge", "Processors that the process of the rank uses.",
       [](Worker const& worker) { return as_ratio(worker.permille); }},
      {"rank_stopped", "gauge", "1: the process of the rank is stopped, or has ended.",
       [](Worker const& worker) { return std::string(worker.state == 'T' || worker.state == 'E' ? "1" : "0"); }},
  }};
  for (auto const& metric : kOfRanks) {
    if (!workers.empty()) {
      metrics.begin(metric.name, metric.type, metric.help);
    }
    for (auto const& [worker, node] : workers) {
      metrics.sample(metric.value(*worker), {{"rank", std::to_string(worker->rank)}, {"host", node->host}});
    }
  }
}

void say_gpus(Metrics& metrics, std::vector<Placed> workers) {
  auto const labels = [](Placed const& each) {
    return Labels{{"rank", std::to_string(each.worker->rank)}, {"host", each.node->host}};
  };
  std::erase_if(workers, [](Placed const& each) { return !each.worker->gpu; });
  if (!workers.empty()) {
    metrics.begin("rank_gpu_ratio", "gauge", "How much of the time the GPU of the rank is busy.");
  }
  for (auto const& each : workers) {
    metrics.sample(as_ratio(std::uint64_t{each.worker->gpu->percent} * 10), labels(each));
  }
  std::erase_if(workers, [](Placed const& each) { return each.worker->gpu->throttled == live::Throttle::none; });
  if (!workers.empty()) {
    metrics.begin("gpu_throttled", "gauge", "1: the clock of the GPU of the rank is held down.");
  }
  for (auto const& each : workers) {
    auto all = labels(each);
    all.emplace_back("why", live::name_of(each.worker->gpu->throttled));
    metrics.sample("1", all);
  }
}

}  // namespace

std::string metrics_text(Table const& table, bool all) {
  Metrics metrics(table.run_id);
  auto const workers = workers_now(table);
  metrics.gauge("build_info", "The version of cxxrunctl.", "1",
                {{"version", std::to_string(CXXRUN_VERSION_MAJOR) + "." + std::to_string(CXXRUN_VERSION_MINOR) + "." +
                                 std::to_string(CXXRUN_VERSION_PATCH)}});
  say_job(metrics, table);
  say_account(metrics, table);
  say_steps(metrics, workers);
  say_slow(metrics, table);
  say_nodes(metrics, table);
  auto const ranks = all ? workers : furthest(table);
  say_ranks(metrics, ranks);
  say_gpus(metrics, ranks);
  return std::move(metrics).take();
}

}  // namespace cxxrun::launcher::view
