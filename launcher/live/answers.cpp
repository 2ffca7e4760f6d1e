#include "launcher/live/answers.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher::live {
namespace {

constexpr int kLiveVersion = 1;
constexpr std::size_t kShownLines = 20;

std::string text_of(nlohmann::ordered_json const& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}
std::string line_of(nlohmann::ordered_json const& json) {
  return text_of(json) + "\n";
}
std::string quoted(std::string const& text) {
  return text_of(text);
}

/// Appends `"name":value,`.
void put(std::string& to, char const* name, std::string const& value) {
  to.append("\"").append(name).append("\":").append(value).append(",");
}
void put(std::string& to, char const* name, std::uint64_t value) {
  put(to, name, std::to_string(value));
}
void put(std::string& to, char const* name, std::optional<TimePoint> since, TimePoint now) {
  if (since) {
    put(to, name,
        static_cast<std::uint64_t>(
            std::max<std::int64_t>(0, std::chrono::duration_cast<Millis>(now - *since).count())));
  }
}
/// Replaces a last comma.
void close(std::string& to, char bracket) {
  if (to.back() == ',') {
    to.pop_back();
  }
  to += bracket;
}

bool has_gpus(Member const& member) {
  return member.pulse.width > kGpuFigures;
}

/// `gpus`: with figures of them.
void put(std::string& to, Member const& member, bool gpus, TimePoint now) {
  to += '{';
  put(to, "host", quoted(member.host));
  put(to, "generation", member.pulse.number);
  put(to, "heard_ago_ms", member.heard, now);
  put(to, "first_rank", member.pulse.rank_base);
  to += "\"ranks\":[";
  auto const width = gpus ? kFigureNames.size() : std::min<std::size_t>(member.pulse.width, kFigureNames.size());
  for (std::size_t i = 0; i < member.speeds.size(); ++i) {
    to += '[';
    auto const per_step = member.speeds[i].per_step;
    to += std::to_string(per_step ? per_step->count() : -1) + ",";
    auto const row = row_of(member.pulse, i);
    auto const put_figures = [&](std::size_t from, std::size_t end) {
      for (auto k = from; k < end; ++k) {
        to += std::to_string(row.at(k)) + ",";
      }
    };
    put_figures(0, width);
    put_figures(kGpuFigures, gpus ? kFigures : kGpuFigures);
    close(to, ']');
    to += ',';
  }
  close(to, ']');
  to += "},";
}

}  // namespace

/// Numbers are written one by one: a tree of JSON values for 16,384 ranks would take long to make.
std::string live_json(Live const& live, Facts const& facts, TimePoint now) {
  std::string text = "{";
  put(text, "version", kLiveVersion);
  put(text, "run_id", quoted(facts.run_id));
  put(text, "coordinator", quoted(facts.host));
  put(text, "program", quoted(facts.program));
  put(text, "phase", quoted(name_of(live.phase)));
  put(text, "phase_ms", live.since, now);
  put(text, "job_ms", live.began, now);
  put(text, "generation", live.generation);
  put(text, "generation_ms", live.generation_began, now);
  put(text, "nodes", live.nodes);
  put(text, "ranks", live.ranks);
  put(text, "restarts", live.restarts);
  if (facts.max_restarts) {
    put(text, "max_restarts", *facts.max_restarts);
  }
  put(text, "nodes_lost", live.nodes_lost);
  put(text, "checkpoint_ago_ms", live.saved, now);
  if (auto const per_step = hour_ago(live, now)) {
    put(text, "hour_ago_per_step_ms", std::to_string(per_step->count()));
  }
  if (live.account) {
    text += "\"account\":{";
    for (auto const spent : rendezvous::kAllSpent) {
      put(text, (std::string(name_of(spent)) + "_ms").c_str(), std::to_string((*live.account)[spent].count()));
    }
    put(text, "steps_known", live.steps_known ? "true" : "false");
    close(text, '}');
    text += ',';
  }
  put(text, "why", quoted(live.why));
  text += "\"slow\":[";
  for (auto const& each : live.windows.slow) {
    auto const slow = event_of(live, each);
    text += '{';
    put(text, "rank", slow.rank);
    put(text, "ranks", slow.ranks);
    put(text, "host", quoted(slow.host));
    put(text, "late_ms", static_cast<std::uint64_t>(slow.late.count()));
    put(text, "percent", slow.percent);
    put(text, "source", quoted(slow.source));
    put(text, "spent", quoted(slow.spent));
    put(text, "says", quoted(sentence_of(slow)));
    close(text, '}');
    text += ',';
  }
  close(text, ']');
  text += ",\"figures\":[\"per_step_ms\",";
  for (auto const* const name : kFigureNames) {
    text += quoted(name) + ",";
  }
  bool const gpus =
      std::any_of(live.members.begin(), live.members.end(), [](auto const& known) { return has_gpus(known.second); });
  for (auto const* const name : kGpuFigureNames) {
    text += gpus ? quoted(name) + "," : "";
  }
  close(text, ']');
  text += ",\"members\":[";
  for (auto const& [agent, member] : live.members) {
    put(text, member, gpus, now);
  }
  close(text, ']');
  text += ",\"events\":[";
  auto const skipped = live.lines.size() - std::min(live.lines.size(), kShownLines);
  for (auto at = live.lines.begin() + static_cast<std::ptrdiff_t>(skipped); at != live.lines.end(); ++at) {
    text += at->text + ",";
  }
  close(text, ']');
  return text + "}\n";
}

std::string who_json(std::string const& run_id, std::string const& step, std::string const& host) {
  return line_of({{"version", kLiveVersion}, {"run_id", run_id}, {"step", step}, {"host", host}});
}

std::string error_json(std::string const& why) {
  return line_of({{"error", why}});
}

std::string done_json(std::string const& what) {
  return line_of({{"done", what}});
}

std::string asked_json(std::string const& host, std::size_t asked, std::size_t workers) {
  return line_of({{"host", host}, {"asked", asked}, {"workers", workers}});
}

std::string stack_json(std::uint32_t rank, std::string const& host, std::vector<std::string> const& frames,
                       std::string const& place) {
  return line_of({{"rank", rank}, {"host", host}, {"place", place}, {"frames", frames}});
}

std::string tail_json(std::uint32_t rank, std::string const& host, Tail const& tail) {
  nlohmann::ordered_json json{{"rank", rank}, {"host", host}, {"file", tail.file}, {"text", tail.text}};
  if (!tail.place.empty()) {
    json.update({{"left_out", tail.left_out}, {"place", tail.place}});
  }
  return line_of(json);
}

std::string lines_json(Live const& live, Facts const& facts, std::uint64_t after) {
  std::string text = line_of({{"nonce", facts.nonce}});
  for (auto const& line : live.lines) {
    if (line.number > after) {
      text += "{\"number\":" + std::to_string(line.number) + "," + line.text.substr(1) + "\n";
    }
  }
  return text;
}

std::uint64_t known_to(Question const& question, Facts const& facts) {
  return question.nonce == facts.nonce ? question.number : 0;
}

}  // namespace cxxrun::launcher::live
