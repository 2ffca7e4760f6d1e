#include "launcher/doctor/findings_text.hpp"

#include <algorithm>
#include <tuple>

#include "src/base/core/hash.hpp"
#include "src/base/core/hostlist.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr std::size_t kAboutColumn = 15;
constexpr std::size_t kLongest = 400;  // of a line; what came from a program or another node may be any text

char const* label_of(Grade grade) {
  switch (grade) {
    case Grade::fine: return "ok    ";
    case Grade::note: return "note  ";
    case Grade::warning: return "WARN  ";
    case Grade::failure: return "FAIL  ";
  }
  return "";
}

/// Findings of several nodes that differ in nothing but numbers.
struct Alike {
  Finding first;
  std::vector<std::string> hosts;
  bool same = true;
};

auto look(Finding const& finding) {
  return std::make_tuple(finding.grade, finding.about, fnv1a_without_numbers(finding.found),
                         fnv1a_without_numbers(finding.remedy));
}

/// In the order of the lines about one thing, as the first node has them.
std::vector<Alike> gather(std::vector<NodeFindings> const& nodes) {
  std::vector<Alike> all;
  for (auto const& node : nodes) {
    for (auto const& finding : node.findings) {
      auto at =
          std::find_if(all.begin(), all.end(), [&](Alike const& each) { return look(each.first) == look(finding); });
      if (at == all.end()) {
        auto const after = std::find_if(all.rbegin(), all.rend(),
                                        [&](Alike const& each) { return each.first.about == finding.about; });
        at = all.insert(after == all.rend() ? all.end() : after.base(), Alike{finding, {}});
      }
      at->same = at->same && at->first == finding;
      at->hosts.push_back(node.host);
    }
  }
  return all;
}

std::string hosts_text(Alike const& alike, std::size_t nodes) {
  if (nodes == 1) {
    return "";
  }
  auto const who = alike.hosts.size() == nodes ? "all " + std::to_string(nodes) : compress_hostlist(alike.hosts);
  return "  [" + who + (alike.same ? "]" : ", the first is shown]");
}

std::string finding_text(Finding const& finding, std::string const& hosts) {
  std::string about = printable(finding.about);
  about.resize(std::max(kAboutColumn, about.size() + 1), ' ');
  return label_of(finding.grade) + about + printable(finding.found, kLongest) + hosts + "\n" +
         (finding.remedy.empty() ? "" : "        -> " + printable(finding.remedy, kLongest) + "\n");
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
  auto number = std::count_if(report.step.begin(), report.step.end(),
                              [grade](Finding const& each) { return each.grade == grade; });
  auto const lines = gather(report.nodes);
  number += std::count_if(lines.begin(), lines.end(), [grade](Alike const& each) { return each.first.grade == grade; });
  return static_cast<std::size_t>(number);
}

std::string findings_text(Report const& report) {
  std::string text;
  for (auto const& each : report.step) {
    text += finding_text(each, "");
  }
  for (auto const& alike : gather(report.nodes)) {
    text += finding_text(alike.first, hosts_text(alike, report.nodes.size()));
  }
  std::vector<std::string> hosts;
  hosts.reserve(report.nodes.size());
  for (auto const& node : report.nodes) {
    hosts.push_back(node.host);
  }
  return text + "cxxrun --doctor on " + printable(compress_hostlist(hosts)) + ": " +
         counted(count(report, Grade::failure), "failure") + ", " + counted(count(report, Grade::warning), "warning") +
         "\n";
}

}  // namespace cxxrun::launcher::doctor
