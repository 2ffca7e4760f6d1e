#include "rendezvous/hangs/hanging.hpp"

#include <algorithm>
#include <utility>

#include "rendezvous/hangs/hang_finding.hpp"
#include "rendezvous/hangs/hang_lines.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Millis kLeastPause{50};
constexpr Millis kMostPause{1000};

using Seen = HangState::Seen;

/// What its agent compares before it kills it.
std::uint64_t moves_of(Standstill const& figures) {
  return worker::begun_in_all(figures.entered, figures.groups);
}

/// `warned`: what a line is due for.
std::vector<HangOrder> orders(HangState const& state, std::uint32_t world, TimePoint now, HangPolicy const& policy,
                              HangFinding const& warned) {
  std::vector<HangOrder> all;
  if (policy.timeout <= Millis{0}) {
    return all;
  }
  bool const at_once = policy.timeout == policy.warning();
  auto const blur = policy.blur(policy.timeout);
  for (auto& [seen, why] : accused_by(at_once ? warned : find_hang(state, world, now, policy.timeout, blur), world)) {
    if (!state.ordered.contains(seen->last.rank)) {
      all.push_back({seen->last.rank, moves_of(seen->last), std::move(why)});
    }
  }
  return all;
}

/// While somebody waits inside a collective; nothing can be wrong else.
void set_due(HangState& state, TimePoint now, HangPolicy const& policy) {
  bool const waits = std::any_of(state.ranks.begin(), state.ranks.end(), [](auto const& each) {
    return inside(each.second.last) || !each.second.last.groups.empty();
  });
  if (!waits) {
    state.due.reset();
  } else if (!state.due || *state.due <= now) {
    state.due = now + std::clamp(policy.warning() / 32, kLeastPause, kMostPause);
  }
}

}  // namespace

HangState report(HangState state, std::string const& host, std::vector<Standstill> const& told, TimePoint now,
                 HangPolicy const& policy) {
  for (auto const& each : told) {
    auto const before = state.ranks.find(each.rank);
    if (before != state.ranks.end() && (each.still <= Millis{0} || moves_of(before->second.last) != moves_of(each))) {
      state.ordered.erase(each.rank);  // it has moved
    }
    if (each.still <= Millis{0}) {
      state.ranks.erase(each.rank);
    } else {
      state.ranks.insert_or_assign(each.rank, Seen{each, host, now - each.still});
    }
  }
  set_due(state, now, policy);
  return state;
}

HangJudgement judge(HangState state, std::uint32_t world, TimePoint now, HangPolicy const& policy) {
  HangJudgement result;
  HangFinding const found = find_hang(state, world, now, policy.warning(), policy.blur(policy.warning()));
  std::string const about = subject(found);
  if (!about.empty() && about != state.said) {
    result.line = line_about(found, world);
  }
  result.orders = orders(state, world, now, policy, found);
  state.said = about;
  for (auto const& order : result.orders) {
    state.ordered.insert(order.rank);
  }
  set_due(state, now, policy);
  result.next = std::move(state);
  return result;
}

}  // namespace cxxrun::rendezvous
