#include "launcher/doctor/findings_text.hpp"

#include <algorithm>
#include <tuple>

#include "src/core/hash.hpp"
#include "src/core/hostlist.hpp"
#include "src/core/text.hpp"

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

std::string plural(std::size_t number, std::string const& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
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

std::size_t count(std::vector<NodeFindings> const& nodes, Grade grade) {
  std::size_t number = 0;
  for (auto const& node : nodes) {
    number += static_cast<std::size_t>(std::count_if(node.findings.begin(), node.findings.end(),
                                                     [grade](Finding const& each) { return each.grade == grade; }));
  }
  return number;
}

std::string findings_text(std::vector<NodeFindings> const& nodes) {
  std::string text;
  for (auto const& alike : gather(nodes)) {
    std::string about = printable(alike.first.about);
    about.resize(std::max(kAboutColumn, about.size() + 1), ' ');
    text += label_of(alike.first.grade) + about + printable(alike.first.found, kLongest) +
            hosts_text(alike, nodes.size()) + "\n";
    text += alike.first.remedy.empty() ? "" : "        -> " + printable(alike.first.remedy, kLongest) + "\n";
  }
  std::vector<std::string> hosts;
  hosts.reserve(nodes.size());
  for (auto const& node : nodes) {
    hosts.push_back(node.host);
  }
  return text + "cxxrun --doctor on " + printable(compress_hostlist(hosts)) + ": " +
         plural(count(nodes, Grade::failure), "failure") + ", " + plural(count(nodes, Grade::warning), "warning") +
         "\n";
}

}  // namespace cxxrun::launcher::doctor
