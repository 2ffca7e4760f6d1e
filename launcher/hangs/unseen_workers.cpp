#include "launcher/hangs/unseen_workers.hpp"

#include <algorithm>
#include <utility>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher {

UnseenStep look_for_unseen(UnseenState state, std::vector<UnseenLook> const& seen, TimePoint now,
                           UnseenPolicy const& policy) {
  UnseenStep result;
  state.began = state.began.value_or(now);
  auto const before = std::exchange(state.stuck, {});
  for (auto const& each : seen) {
    if (each.shows || (each.state != 'T' && each.state != 'D')) {
      continue;
    }
    auto const known = before.find(each.rank);
    bool const same = known != before.end() && known->second.state == each.state;
    auto& stuck = state.stuck[each.rank] = same ? known->second : UnseenState::Stuck{each.state, now, false};
    if (!stuck.named && now - stuck.since >= policy.limit) {
      stuck.named = true;
      result.stuck.push_back(each.rank);
    }
  }
  bool const shows = std::any_of(seen.begin(), seen.end(), [](auto const& each) { return each.shows; });
  result.blind = policy.asked && !state.said && !shows && !seen.empty() && now - *state.began >= policy.limit;
  state.said = state.said || result.blind;
  result.next = std::move(state);
  return result;
}

std::string blind_line(std::string const& host, UnseenPolicy const& policy, bool armed) {
  std::string const head =
      "--hang-timeout: after " + seconds_text(policy.limit) + " no worker on " + host + " shows its collectives, ";
  if (armed) {
    return head +
           "for none has made a process group of torch.distributed with the RANK and WORLD_SIZE that it was given; "
           "from then on a rank that hangs is named";
  }
  std::string const what = "so that no rank that hangs is named: call cxxrun.install() in the script";
  if (!policy.watch) {
    return head + what + ", or leave --watch off out";
  }
  if (!policy.bootstrap) {
    return head + what +
           "; the Python package cxxrun is neither beside the launcher nor in the workers' Python: pip install it "
           "there, or export PYTHONPATH=PREFIX/lib/python3/dist-packages";
  }
  return head + what +
         "; they are no Python, or one that does not take the package from PYTHONPATH (python -I, -E or -S, a script "
         "that sets PYTHONPATH anew, a container)";
}

std::string stuck_line(std::string const& name, UnseenLook const& worker, std::string const& told, Millis limit) {
  bool const stopped = worker.state == 'T';
  auto const pid = std::to_string(worker.pid);
  return name + " has not run for " + seconds_text(limit) + ": " + told +
         (stopped ? "; it is stopped (SIGSTOP): kill -CONT " + pid + " lets it go on"
                  : "; it is in uninterruptible sleep: a file system or a device does not answer");
}

}  // namespace cxxrun::launcher
