#include "rendezvous/net/probing.hpp"

#include <algorithm>

#include "src/base/core/text.hpp"
#include "src/base/core/turn.hpp"

namespace cxxrun::rendezvous {
namespace {

Millis at_most(Probing const& probing, Millis deadline) {
  return probing.once ? std::min(probing.patience, deadline) : deadline;
}

/// Whether nothing is tried any more.
bool is_over(Probing& probing, TimePoint now) {
  bool const wrong_for_long =
      probing.only_port && probing.wrong_since && now - *probing.wrong_since > Probing::kWrongPeerPatience;
  probing.over = probing.over || (probing.swept && (probing.once || now > probing.give_up_at || wrong_for_long));
  return probing.over;
}

void end_sweep(Probing& probing, TimePoint now) {
  probing.swept = true;
  probing.next = 0;
  probing.next_at = now + probing.pause;
  probing.pause = std::min(probing.pause * 2, Probing::kLongestPause);
}

}  // namespace

ProbeAction next_action(Probing& probing, TimePoint now) {
  auto const late = std::find_if(probing.open.begin(), probing.open.end(),
                                 [&](auto const& entry) { return entry.second.until <= now; });
  if (late != probing.open.end()) {
    Candidate const candidate = late->first;
    failed(probing, candidate, late->second.connected ? ProbeFailure::wrong : ProbeFailure::silent, now);
    return Drop{candidate};
  }
  while (!is_over(probing, now)) {
    if (now < probing.next_at || probing.open.size() == probing.count) {
      return {};
    }
    while (probing.open.contains(probing.next)) {
      ++probing.next;
    }
    if (probing.next < probing.count) {
      probing.open[probing.next] = {now + at_most(probing, Probing::kConnectDeadline)};
      probing.next_at = now + Probing::kStagger;
      return Probe{probing.next++};
    }
    end_sweep(probing, now);
  }
  return probing.open.empty() ? ProbeAction(GiveUp{probing.only_port && probing.wrong_since}) : ProbeAction();
}

std::optional<TimePoint> due(Probing const& probing) {
  std::optional<TimePoint> first;
  for (auto const& [candidate, attempt] : probing.open) {
    first = earliest({first, attempt.until});
  }
  bool const no_turns = probing.over || probing.open.size() == probing.count;
  return no_turns ? first : earliest({first, probing.next_at});
}

void add(Probing& probing, std::size_t some, TimePoint now) {
  probing.next = probing.count;
  probing.count += some;
  probing.next_at = now;
}

void connected(Probing& probing, Candidate candidate, TimePoint now) {
  probing.open[candidate] = {now + at_most(probing, Probing::kHelloDeadline), true};
}

void failed(Probing& probing, Candidate candidate, ProbeFailure how, TimePoint now) {
  probing.open.erase(candidate);
  probing.refused = probing.refused && how == ProbeFailure::refused;
  if (how == ProbeFailure::wrong && !probing.wrong_since) {
    probing.wrong_since = now;
  }
  if (probing.open.empty()) {
    probing.next_at = std::min(probing.next_at, now);
  }
}

bool is_long(Probing const& probing, TimePoint now) {
  return now < probing.give_up_at && now >= probing.give_up_at - probing.patience + Probing::kToldAfter;
}

std::string not_found_line(Probing const& probing, std::string const& where, std::string const& trouble) {
  return "no coordinator at " + where + " within " + seconds_text(probing.patience) + " (" + trouble + "); " +
         (probing.refused ? "the host is up, but nothing listens there: is the agent of the first node running on that "
                            "host and port?"
                          : "is that the first node, and can this node reach it through firewalls and networks?");
}

}  // namespace cxxrun::rendezvous
