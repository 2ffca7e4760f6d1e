#include <algorithm>

#include "launcher/doctor/judge.hpp"
#include "launcher/doctor/numbers.hpp"
#include "src/base/core/endpoint.hpp"
#include "src/base/core/text.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr double kSlowName = 2000;  // ms

std::string short_name(std::string const& name) {
  return lower(name.substr(0, name.find('.')));
}

/// What cxxrun found for a name ("KEY.usable"), and what getent did.
void compare(Findings& found, Facts const& facts, std::string const& name, std::string const& key) {
  auto const usable = value_of(facts, key + ".usable");
  auto const getent = value_of(facts, key + ".getent");
  if (!usable.empty() && !getent.empty() && usable != getent) {
    found.push_back({Grade::warning, "names", name + " is " + usable + " here, and " + getent + " for getent",
                     "the two read different sources: compare /etc/nsswitch.conf and the container's /etc/hosts"});
  }
}

}  // namespace

Finding judge_names(Facts const& facts) {
  auto const own = value_of(facts, "name.own");
  auto const addresses = value_of(facts, "name.addresses");
  auto const unknown = value_of(facts, "name.unknown");
  bool const several = number(facts, "nodes").value_or(1) > 1;
  // A node alone calls itself by its loopback address; where the job has been given addresses, gloo still asks.
  auto const grade = !several                                   ? Grade::note
                     : value_of(facts, "name.needless").empty() ? Grade::failure
                                                                : Grade::warning;
  if (!unknown.empty()) {
    return {grade, "names", "unknown here: " + unknown,
            "add them to DNS or /etc/hosts of this node, or give an address with --rdzv-endpoint"};
  }
  if (facts.contains("name.hung")) {
    auto const asked = value_of(facts, "name.asked");
    return {several && !facts.contains("name.unknown") ? grade : Grade::warning, "names",
            "no answer for " + (asked.empty() ? own : asked) + " within " + value_of(facts, "name.hung"),
            "a name server in /etc/resolv.conf does not answer; put the nodes into /etc/hosts"};
  }
  if (addresses.empty()) {
    return {grade, "names", own + " has no address: " + value_of(facts, "name.error"),
            "add this node to DNS or to /etc/hosts on all nodes, or give an address with --rdzv-endpoint"};
  }
  auto const each = split(addresses, ' ');
  if (std::all_of(each.begin(), each.end(), [](std::string const& address) { return is_loopback(address); })) {
    return {several ? Grade::warning : Grade::note, "names",
            own + " is " + addresses + ", which other nodes cannot call",
            "take it out of that line of /etc/hosts, or give an address with --rdzv-endpoint and --local-addr"};
  }
  auto const back = value_of(facts, "name.back");
  if (!back.empty() && short_name(back) != short_name(own)) {
    return {Grade::note, "names", own + " is " + addresses + ", and that address is called " + back,
            "harmless for cxxrun, which compares addresses; other programs compare names"};
  }
  return {Grade::fine, "names", own + " is " + addresses + (back.empty() ? "" : ", back " + back), ""};
}

Findings judge_lookups(Facts const& facts) {
  Findings found;
  compare(found, facts, value_of(facts, "name.own"), "name");
  compare(found, facts, value_of(facts, "first.name"), "first");
  if (auto const took = number(facts, "name.slowest_ms").value_or(0); took > kSlowName) {
    found.push_back(
        {Grade::warning, "names", value_of(facts, "name.slowest") + " was found after " + tenths(took / 1000) + " s",
         "a name server in /etc/resolv.conf is dead or slow, and each look-up waits for it: take it out, or "
         "put the nodes into /etc/hosts"});
  }
  return found;
}

}  // namespace cxxrun::launcher::doctor
