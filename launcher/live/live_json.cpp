// The live table as text. Numbers are written one by one: of 16,384 ranks a tree of values would take long to make.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "launcher/live/figures.hpp"
#include "launcher/live/live.hpp"

namespace cxxrun::launcher::live {
namespace {

constexpr int kLiveVersion = 1;
constexpr std::size_t kShownLines = 20;

std::string quoted(std::string const& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// `"name":value,`
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
/// Instead of the last comma.
void close(std::string& to, char bracket) {
  if (to.back() == ',') {
    to.pop_back();
  }
  to += bracket;
}

void put(std::string& to, Member const& member, TimePoint now) {
  to += '{';
  put(to, "host", quoted(member.host));
  put(to, "generation", member.pulse.number);
  put(to, "heard_ago_ms", member.heard, now);
  put(to, "first_rank", member.pulse.rank_base);
  to += "\"ranks\":[";
  auto const width = std::min<std::size_t>(member.pulse.width, kFigures);
  for (std::size_t i = 0; i < member.speeds.size(); ++i) {
    to += '[';
    auto const per_step = member.speeds[i].per_step;
    to += std::to_string(per_step ? per_step->count() : -1) + ",";
    for (std::size_t k = 0; k < width; ++k) {
      to += std::to_string(member.pulse.figures[i * member.pulse.width + k]) + ",";
    }
    close(to, ']');
    to += ',';
  }
  close(to, ']');
  to += "},";
}

}  // namespace

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
  put(text, "why", quoted(live.why));
  text += "\"figures\":[\"per_step_ms\",";
  for (auto const* const name : kFigureNames) {
    text += quoted(name) + ",";
  }
  close(text, ']');
  text += ",\"members\":[";
  for (auto const& [agent, member] : live.members) {
    put(text, member, now);
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
  std::string text = "{";
  put(text, "version", kLiveVersion);
  put(text, "run_id", quoted(run_id));
  put(text, "step", quoted(step));
  put(text, "host", quoted(host));
  close(text, '}');
  return text + "\n";
}

std::string error_json(std::string const& why) {
  return "{\"error\":" + quoted(why) + "}\n";
}

std::string stack_json(std::uint32_t rank, std::string const& host, std::vector<std::string> const& frames,
                       std::string const& place) {
  std::string text = "{";
  put(text, "rank", rank);
  put(text, "host", quoted(host));
  put(text, "place", quoted(place));
  text += "\"frames\":[";
  for (auto const& frame : frames) {
    text += quoted(frame) + ",";
  }
  close(text, ']');
  return text + "}\n";
}

std::string tail_json(std::uint32_t rank, std::string const& host, std::string const& file, std::string const& tail) {
  std::string text = "{";
  put(text, "rank", rank);
  put(text, "host", quoted(host));
  put(text, "file", quoted(file));
  put(text, "text", quoted(tail));
  close(text, '}');
  return text + "\n";
}

std::string lines_json(Live const& live, Facts const& facts, std::uint64_t after) {
  std::string text = "{\"nonce\":" + quoted(facts.nonce) + "}\n";
  for (auto const& line : live.lines) {
    if (line.number > after) {
      text += "{\"number\":" + std::to_string(line.number) + "," + line.text.substr(1) + "\n";
    }
  }
  return text;
}

}  // namespace cxxrun::launcher::live
