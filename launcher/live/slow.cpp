#include "launcher/live/slow.hpp"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <utility>

namespace cxxrun::launcher::live {
namespace {

constexpr std::int64_t kLeastSteps = 10;
constexpr std::int64_t kLeastLooks = 10;
constexpr std::size_t kLeastRanks = 3;  // two cannot say by how much ranks differ without a reason
constexpr double kFloor = 0.05;         // of a step
constexpr double kSpread = 4 * 1.48;    // median deviations: 4 standard deviations, if they are normal
constexpr double kOfFurthest = 0.5;     // another one is behind, too, if it is late by so much of what the furthest is
constexpr double kLeastRate = 0.5;      // collectives a step
constexpr double kMostSteps = 10;       // numbers that differ by more steps are not those of the same collectives
constexpr double kShortest = 2500;      // a node's first reading is at any instant
constexpr unsigned kLast = 5;           // windows
constexpr std::size_t kSlowIn = 3;
constexpr std::size_t kMostSlow = 8;  // are named at once

using Late = std::vector<std::optional<double>>;

/// In floating point, which cannot overflow.
double since(std::int64_t now, std::int64_t before) {
  return static_cast<double>(now) - static_cast<double>(before);
}

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::sort(values.begin(), values.end());
  auto const half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// The median of what `of` says of the numbers from `begin` to `end`.
template <class Of>
double median_of(std::size_t begin, std::size_t end, Of const& of) {
  std::vector<double> values;
  for (auto i = begin; i < end; ++i) {
    values.push_back(of(i));
  }
  return median(std::move(values));
}

Millis in_millis(double time) {
  return Millis(std::llround(std::clamp(time, 0.0, 1e12)));
}

/// What a source says of all ranks, in milliseconds from any zero.
struct Found {
  Source source = Source::calls;
  Late late;
  std::vector<Kind> kinds;
};

std::optional<Found> by_calls(Windows const& windows, std::vector<Reading> const& now, double step) {
  Found found{Source::calls, {}, std::vector<Kind>(now.size())};
  for (std::size_t i = 0; i < now.size(); ++i) {
    auto const& base = windows.ranks[i].base;
    if (now[i].inside <= 0 || now[i].at <= base.at) {
      return std::nullopt;
    }
    auto const share = since(now[i].inside, base.inside) / 1000 / since(now[i].at, base.at);
    found.late.emplace_back(-std::clamp(share, 0.0, 1.0) * step);
  }
  return found;
}

/// Where all ranks use DataLoaders: those that wait for them longer are late by that.
void tell_kinds(Found& found, std::vector<Windows::Rank> const& before, std::vector<Reading> const& now) {
  std::vector<double> late;
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (before[i].base.fed <= 0) {
      return;
    }
    if (found.late[i]) {
      late.push_back(*found.late[i]);
    }
  }
  auto const fed = [&](std::size_t i) {
    return since(now[i].fed, before[i].base.fed) / 1000 / since(now[i].step, before[i].base.step);
  };
  auto const usual = median_of(0, now.size(), fed);
  auto const middle = median(std::move(late));
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (found.late[i]) {
      found.kinds[i] = fed(i) - usual >= (*found.late[i] - middle) / 2 ? Kind::input : Kind::computing;
    }
  }
}

/// A window in which any rank has no new sample does not count.
std::optional<Found> by_ddp(Windows& windows, std::vector<Reading> const& now) {
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i].sample <= 0 || now[i].sample == windows.ranks[i].sample) {
      return std::nullopt;
    }
  }
  auto const reduces = [&](std::size_t i) { return since(now[i].reducing, 0) / 1000; };
  auto const computes = [&](std::size_t i) {
    return (static_cast<double>(now[i].forward) + static_cast<double>(now[i].backward)) / 1000;
  };
  auto const reducing = median_of(0, now.size(), reduces);
  auto const computing = median_of(0, now.size(), computes);
  Found found{Source::ddp, {}, {}};
  for (std::size_t i = 0; i < now.size(); ++i) {
    auto const longer = computes(i) - computing;
    auto const late = std::max(reducing - reduces(i), longer);
    found.late.emplace_back(late);
    found.kinds.push_back(longer >= late / 2 ? Kind::computing : Kind::input);
    windows.ranks[i].sample = now[i].sample;
  }
  return found;
}

/// The ranks of one node, whose looks are by one clock: how far each one's mean number is behind, at the common rate.
void by_begun(std::vector<Windows::Rank> const& before, std::vector<Windows::Rank> const& now, std::size_t begin,
              std::size_t end, double step, Late& late) {
  auto const more = [&](std::size_t i) { return now[i].mean_begun - before[i].mean_begun; };
  auto const passed = [&](std::size_t i) { return now[i].mean_at - before[i].mean_at; };
  if (end - begin < kLeastRanks) {
    return;
  }
  for (auto i = begin; i < end; ++i) {
    if (!now[i].looked || !before[i].looked || passed(i) <= 0) {
      return;
    }
  }
  auto const usual = median_of(begin, end, more);
  auto const rate = median_of(begin, end, [&](std::size_t i) { return more(i) / passed(i); });
  auto const behind = [&](std::size_t i) {
    return (now[i].mean_at - now[begin].mean_at) - (now[i].mean_begun - now[begin].mean_begun) / rate;
  };
  if (rate * step < kLeastRate) {
    return;
  }
  auto const middle = median_of(begin, end, behind);
  for (auto i = begin; i < end; ++i) {
    bool const equally_many = std::abs(more(i) - usual) <= usual / 100 + 2;
    if (!equally_many || std::abs(behind(i) - middle) > kMostSteps * step) {
      return;
    }
  }
  for (auto i = begin; i < end; ++i) {
    late[i] = behind(i) - middle;
  }
}

std::optional<Found> by_begun(std::vector<Windows::Rank> const& before, std::vector<Windows::Rank> const& now,
                              double step) {
  Found found{Source::begun, Late(now.size()), std::vector<Kind>(now.size())};
  for (std::size_t begin = 0, end = 0; begin < now.size(); begin = end) {
    while (end < now.size() && now[end].base.node == now[begin].base.node) {
      ++end;
    }
    by_begun(before, now, begin, end, step, found.late);
  }
  bool const any = std::any_of(found.late.begin(), found.late.end(), [](auto const& each) { return each.has_value(); });
  return any ? std::optional(std::move(found)) : std::nullopt;
}

/// The next window begins with these readings.
void begin_window(Windows& windows, std::vector<Reading> const& now) {
  for (std::size_t i = 0; i < now.size(); ++i) {
    auto& rank = windows.ranks[i];
    auto const looks = since(now[i].looks, rank.base.looks);
    rank.looked = now[i].looks > 0 && rank.base.looks > 0 && looks >= kLeastLooks;
    if (rank.looked) {
      rank.mean_begun = since(now[i].looked_begun, rank.base.looked_begun) / looks;
      rank.mean_at = since(now[i].looked_at, rank.base.looked_at) / looks;
    }
    rank.base = now[i];
  }
}

bool are_the_same_ranks(Windows const& windows, std::vector<Reading> const& now) {
  return std::equal(windows.ranks.begin(), windows.ranks.end(), now.begin(), now.end(),
                    [](Windows::Rank const& rank, Reading const& reading) {
                      return rank.base.rank == reading.rank && rank.base.node == reading.node &&
                             rank.base.step <= reading.step && rank.base.at <= reading.at;
                    });
}

void judge(Windows& windows, Found const& found, double step) {
  auto const behind = who_is_behind(found.late, step);
  for (std::size_t i = 0; i < behind.size(); ++i) {
    auto& rank = windows.ranks[i];
    if (!found.late[i]) {
      continue;
    }
    rank.behind = (rank.behind << 1U | (behind[i] ? 1U : 0U)) & ((1U << kLast) - 1);
    rank.counted = std::min(rank.counted + 1, kLast);
    if (behind[i]) {
      bool const tells = found.kinds[i] != Kind::unknown;
      rank.last = {rank.base.rank,        1,
                   in_millis(*behind[i]), in_millis(step),
                   found.source,          tells ? found.kinds[i] : rank.last.kind};
    }
    if (std::bitset<kLast>(rank.behind).count() >= kSlowIn) {
      rank.is_slow = true;
    } else if (rank.behind == 0 && rank.counted == kLast) {
      rank.is_slow = false;
      rank.last.kind = Kind::unknown;
    }
  }
}

/// `who`, with what was found of the latest of its ranks.
Slow as_found(std::vector<Windows::Rank> const& ranks, Slow who) {
  auto const first =
      std::find_if(ranks.begin(), ranks.end(), [&](auto const& each) { return each.base.rank == who.rank; });
  auto const latest = std::max_element(first, first + who.ranks,
                                       [](auto const& a, auto const& b) { return a.last.late < b.last.late; });
  auto found = latest->last;
  found.rank = who.rank;
  found.ranks = who.ranks;
  return found;
}

/// Who is slow now, of those that were named before and of others.
std::vector<Change> name(Windows& windows) {
  std::vector<Change> changes;
  auto const& ranks = windows.ranks;
  std::vector<Slow> left;
  std::vector<bool> named(ranks.size());
  for (auto const& slow : windows.slow) {
    auto const first = static_cast<std::size_t>(
        std::find_if(ranks.begin(), ranks.end(), [&](auto const& each) { return each.base.rank == slow.rank; }) -
        ranks.begin());
    bool still = false;
    for (auto i = first; i < first + slow.ranks; ++i) {
      still = still || ranks[i].is_slow;
    }
    if (!still) {
      changes.push_back({slow, true});
      continue;
    }
    std::fill_n(named.begin() + static_cast<std::ptrdiff_t>(first), slow.ranks, true);
    left.push_back(as_found(ranks, slow));
  }
  windows.slow = std::move(left);
  for (std::size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    std::size_t slow = 0;
    std::size_t new_ones = 0;
    for (; end < ranks.size() && ranks[end].base.node == ranks[begin].base.node; ++end) {
      slow += ranks[end].is_slow ? 1 : 0;
      new_ones += ranks[end].is_slow && !named[end] ? 1 : 0;
    }
    auto const count = static_cast<std::uint32_t>(end - begin);
    bool const all = slow == count && count > 1;
    if (new_ones > 0 && all) {  // instead of its ranks that were named
      std::erase_if(windows.slow, [&](Slow const& each) { return each.rank - ranks[begin].base.rank < count; });
    }
    for (auto i = begin; new_ones > 0 && i < (all ? begin + 1 : end); ++i) {
      if ((all || (ranks[i].is_slow && !named[i])) && windows.slow.size() < kMostSlow) {
        windows.slow.push_back(as_found(ranks, {.rank = ranks[i].base.rank, .ranks = all ? count : 1}));
        changes.push_back({windows.slow.back(), false});
      }
    }
  }
  return changes;
}

}  // namespace

Late who_is_behind(Late const& late, double step) {
  std::vector<double> others;
  for (auto const& each : late) {
    if (each) {
      others.push_back(*each);
    }
  }
  Late behind(late.size());
  if (others.size() < kLeastRanks || step <= 0) {
    return behind;
  }
  auto const furthest = std::max_element(others.begin(), others.end());
  auto const top = *furthest;
  others.erase(furthest);
  auto const middle = median(others);
  auto const deviation = median_of(0, others.size(), [&](std::size_t i) { return std::abs(others[i] - middle); });
  auto const least = std::max({kFloor * step, kSpread * deviation, kOfFurthest * (top - middle)});
  for (std::size_t i = 0; i < late.size(); ++i) {
    if (late[i] && *late[i] - middle >= least) {
      behind[i] = *late[i] - middle;
    }
  }
  return behind;
}

std::vector<Change> close_window(Windows& windows, std::vector<Reading> const& now) {
  if (now.empty() || !are_the_same_ranks(windows, now)) {
    windows = {};
    windows.ranks.resize(now.size());
    begin_window(windows, now);
    return {};
  }
  std::vector<double> times;
  for (std::size_t i = 0; i < now.size(); ++i) {
    auto const& base = windows.ranks[i].base;
    auto const steps = since(now[i].step, base.step);
    if (steps < kLeastSteps || since(now[i].at, base.at) < kShortest) {
      return {};  // the window goes on
    }
    times.push_back(since(now[i].heard, base.heard) / steps);
  }
  auto const step = median(std::move(times));
  auto const before = windows.ranks;
  bool const counts = std::exchange(windows.warm, true);
  auto found = counts ? by_calls(windows, now, step) : std::nullopt;
  if (!found && counts) {
    found = by_ddp(windows, now);
  }
  begin_window(windows, now);
  if (!found && counts) {
    found = by_begun(before, windows.ranks, step);
  }
  if (found && found->source != Source::ddp) {
    tell_kinds(*found, before, now);
  }
  if (!counts) {
    for (std::size_t i = 0; i < now.size(); ++i) {
      windows.ranks[i].sample = now[i].sample;
    }
  }
  if (!found || step <= 0) {
    return {};
  }
  judge(windows, *found, step);
  return name(windows);
}

void empty(Windows& windows) {
  windows.warm = false;
  for (auto& rank : windows.ranks) {
    rank.behind = 0;
    rank.counted = 0;
    rank.looked = false;
  }
}

}  // namespace cxxrun::launcher::live
