#include "launcher/doctor/finding.hpp"

#include <algorithm>
#include <tuple>

#include <nlohmann/json.hpp>

#include "src/base/core/hash.hpp"
#include "src/base/core/hostlist.hpp"
#include "src/base/core/list.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::doctor {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kAboutColumn = 15;
constexpr std::size_t kLongest = 400;  // length of a line: text from programs and other nodes may be anything

char const* label_of(Grade grade) {
  switch (grade) {
    case Grade::fine: return "ok    ";
    case Grade::note: return "note  ";
    case Grade::warning: return "WARN  ";
    case Grade::failure: return "FAIL  ";
  }
  return "";
}

/// A line of the table: the same finding of several nodes, but for numbers.
struct Line {
  Finding first;
  std::vector<std::string> hosts;
  bool same = true;
};

/// Equal for findings that differ only in numbers.
auto key_without_numbers(Finding const& finding) {
  return std::make_tuple(finding.grade, finding.about, fnv1a_without_numbers(finding.found),
                         fnv1a_without_numbers(finding.remedy));
}

/// In the order of the first node. A line that only later nodes have stands behind the others about the same thing.
std::vector<Line> gather(std::vector<NodeFindings> const& nodes) {
  std::vector<Line> all;
  for (auto const& node : nodes) {
    for (auto const& finding : node.findings) {
      auto at = std::ranges::find_if(
          all, [&](Line const& each) { return key_without_numbers(each.first) == key_without_numbers(finding); });
      if (at == all.end()) {
        auto const after =
            std::find_if(all.rbegin(), all.rend(), [&](Line const& each) { return each.first.about == finding.about; });
        at = all.insert(after == all.rend() ? all.end() : after.base(), Line{finding, {}});
      }
      at->same = at->same && at->first == finding;
      at->hosts.push_back(node.host);
    }
  }
  return all;
}

std::string hosts_text(Line const& line, std::size_t nodes) {
  if (nodes == 1) {
    return "";
  }
  auto const who = line.hosts.size() == nodes ? "all " + std::to_string(nodes) : compress_hostlist(line.hosts);
  return "  [" + who + (line.same ? "]" : ", the first is shown]");
}

std::string finding_text(Finding const& finding, std::string const& hosts) {
  std::string about = printable(finding.about);
  about.resize(std::max(kAboutColumn, about.size() + 1), ' ');
  return label_of(finding.grade) + about + printable(finding.found, kLongest) + hosts + "\n" +
         (finding.remedy.empty() ? "" : "        -> " + printable(finding.remedy, kLongest) + "\n");
}

Json to_json(Findings const& findings) {
  Json all = Json::array();
  for (auto const& each : findings) {
    all.push_back(
        {{"grade", name_of(each.grade)}, {"about", each.about}, {"found", each.found}, {"remedy", each.remedy}});
  }
  return all;
}

}  // namespace

char const* name_of(Grade grade) {
  switch (grade) {
    case Grade::fine: return "fine";
    case Grade::note: return "note";
    case Grade::warning: return "warning";
    case Grade::failure: return "failure";
  }
  return "";
}

std::size_t count(Report const& report, Grade grade) {
  auto number = std::ranges::count_if(report.step, [grade](Finding const& each) { return each.grade == grade; });
  auto const lines = gather(report.nodes);
  number += std::ranges::count_if(lines, [grade](Line const& each) { return each.first.grade == grade; });
  return static_cast<std::size_t>(number);
}

std::string findings_text(Report const& report) {
  std::string text;
  for (auto const& each : report.step) {
    text += finding_text(each, "");
  }
  for (auto const& line : gather(report.nodes)) {
    text += finding_text(line.first, hosts_text(line, report.nodes.size()));
  }
  auto const hosts = list_of(report.nodes, &NodeFindings::host);
  return text + "cxxrun --doctor on " + printable(compress_hostlist(hosts)) + ": " +
         counted(count(report, Grade::failure), "failure") + ", " + counted(count(report, Grade::warning), "warning") +
         "\n";
}

std::string findings_json(Report const& report) {
  Json json = {{"version", 1},
               {"failures", count(report, Grade::failure)},
               {"warnings", count(report, Grade::warning)},
               {"nodes", Json::array()},
               {"step", to_json(report.step)}};
  for (auto const& node : report.nodes) {
    json["nodes"].push_back({{"host", node.host}, {"findings", to_json(node.findings)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string write_facts(Facts const& facts) {
  return Json(facts).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Facts> read_facts(std::string const& text) {
  auto const json = Json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return fail(Errc::protocol, "no facts");
  }
  Facts facts;
  for (auto const& [key, value] : json.items()) {
    if (!value.is_string()) {
      return fail(Errc::protocol, "no fact: " + key);
    }
    facts[key] = value.get<std::string>();
  }
  return facts;
}

}  // namespace cxxrun::launcher::doctor
