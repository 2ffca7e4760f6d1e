#include "launcher/workers/environment_watch.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <unistd.h>
#include <utility>

#include "launcher/workers/dropped_environment.hpp"
#include "launcher/workers/worker_group.hpp"
#include "launcher/workers/worker_links.hpp"
#include "src/base/os/log.hpp"
#include "src/base/os/process_info.hpp"

namespace cxxrun::launcher {
namespace {

using namespace std::chrono_literals;

/// Before each check. A container may take a while to start. Two checks in a row have to find the same program, because
/// one check may catch a process just before its next exec.
constexpr std::array<Millis, 5> kPauses{1s, 2s, 7s, 20s, 70s};

std::optional<ObservedProcess> program_at(pid_t pid) {
  auto const stat = os::read_stat(pid);
  bool const gone = !stat || stat->state == 'Z' || stat->state == 'X';
  return gone ? std::nullopt : std::optional(ObservedProcess{stat->comm, arrived(os::variables_of(pid))});
}

bool is_named(pid_t pid, char const* comm) {
  auto const stat = os::read_stat(pid);
  return stat && stat->comm == comm;
}

/// podman's monitor has left podman and is a child of this process, but the container is below it: it counts as
/// podman's child.
std::vector<pid_t> children_at(pid_t pid) {
  auto children = os::children_of(pid);
  if (is_named(pid, "podman")) {
    auto const ours = os::children_of(getpid());
    std::ranges::copy_if(ours, std::back_inserter(children), [](pid_t child) { return is_named(child, "conmon"); });
  }
  return children;
}

}  // namespace

void EnvironmentWatch::begin(std::vector<WorkerSpec> const& workers) {
  commands_.clear();
  suspects_.clear();
  checks_ = 0;
  bool const first = !workers.empty() && workers.front().rank == 0;
  for (auto const& worker : workers) {
    auto const& variables = worker.environment;
    if (first && !warned_ &&
        std::ranges::find(variables, "RANK=" + std::to_string(worker.rank)) !=
            variables.end()) {  // the health check has no RANK
      commands_.emplace(worker.local_rank, worker.argv);
    }
  }
  arm();
}

void EnvironmentWatch::arm() {
  if (commands_.empty() || checks_ == kPauses.size()) {
    return timer_.cancel();
  }
  timer_.after(kPauses.at(checks_++), [this] { check(); });
}

void EnvironmentWatch::check() {
  std::set<pid_t> now;
  for (auto it = commands_.begin(); it != commands_.end();) {
    pid_t const worker = links_.page(it->first) == nullptr ? worker_pid(state_, it->first) : 0;
    auto const dropped = worker > 0 ? find_dropped(worker, {program_at, children_at}) : std::nullopt;
    if (dropped && suspects_.contains(dropped->pid)) {
      log(Level::warn, dropped_line(*dropped, it->second));
      warned_ = true;
      commands_.clear();
      return;
    }
    if (dropped) {
      now.insert(dropped->pid);
    }
    it = worker > 0 ? std::next(it) : commands_.erase(it);
  }
  suspects_ = std::move(now);
  arm();
}

}  // namespace cxxrun::launcher
