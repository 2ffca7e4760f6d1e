#include "launcher/view/figures.hpp"

#include <algorithm>
#include <tuple>

namespace cxxrun::launcher::view {

std::vector<Placed> workers_now(Table const& table) {
  std::vector<Placed> all;
  for (auto const& node : table.members) {
    for (auto const& worker : node.workers) {
      if (node.generation == table.generation) {
        all.push_back({&worker, &node});
      }
    }
  }
  return all;
}

std::optional<Millis> usual_step(std::vector<Placed> const& workers) {
  std::vector<Millis> times;
  for (auto const& each : workers) {
    if (each.worker->per_step) {
      times.push_back(*each.worker->per_step);
    }
  }
  std::sort(times.begin(), times.end());
  return times.empty() ? std::nullopt : std::optional(times[times.size() / 2]);
}

std::optional<Millis> newest_step(std::vector<Placed> const& workers) {
  std::optional<Millis> least;
  for (auto const& [worker, node] : workers) {
    if (worker->step_ago) {
      auto const ago = *worker->step_ago + node->heard_ago;
      least = std::min(least.value_or(ago), ago);
    }
  }
  return least;
}

std::uint64_t most_of(std::vector<Placed> const& workers, std::uint64_t Worker::*number) {
  std::uint64_t most = 0;
  for (auto const& each : workers) {
    most = std::max(most, each.worker->*number);
  }
  return most;
}

std::string percent_text(std::uint64_t permille) {
  return std::to_string(permille / 10) + "." + std::to_string(permille % 10) + " %";
}

bool is_slow(Table const& table, Worker const& worker) {
  return std::any_of(table.slow.begin(), table.slow.end(), [&](Table::Slow const& slow) {
    return worker.rank >= slow.rank && worker.rank - slow.rank < slow.ranks;
  });
}

std::vector<Placed> furthest(Table const& table, std::size_t most) {
  auto all = workers_now(table);
  if (all.size() <= most) {
    return all;
  }
  auto const key = [&](Placed const& each) {
    auto const& [rank, step, step_ago, per_step, begun, waits, memory, permille, state, gpu] = *each.worker;
    bool const runs = state == 'R' || state == 'S';
    return std::tuple(!is_slow(table, *each.worker), runs, step, begun, -step_ago.value_or(Millis{0}),
                      -per_step.value_or(Millis{0}), rank);
  };
  std::vector<std::pair<decltype(key(all.front())), Placed>> keyed;
  keyed.reserve(all.size());
  for (auto const& each : all) {
    keyed.emplace_back(key(each), each);
  }
  auto const middle = keyed.begin() + static_cast<std::ptrdiff_t>(most);
  std::nth_element(keyed.begin(), middle, keyed.end(), [](auto const& a, auto const& b) { return a.first < b.first; });
  std::vector<Placed> chosen;
  std::transform(keyed.begin(), middle, std::back_inserter(chosen), [](auto const& each) { return each.second; });
  std::sort(chosen.begin(), chosen.end(),
            [](Placed const& a, Placed const& b) { return a.worker->rank < b.worker->rank; });
  return chosen;
}

std::string plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c > 126 || (c < ' ' && c != '\n'); }, '?');
  return text;
}

}  // namespace cxxrun::launcher::view
