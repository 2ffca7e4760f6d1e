#include <chrono>
#include <utility>

#include <boost/asio/post.hpp>

#include "launcher/logs/log_file.hpp"
#include "launcher/workers/supervisor.hpp"
#include "src/os/log.hpp"

namespace cxxrun::launcher {

namespace asio = boost::asio;

constexpr std::size_t kErrorFileBytes = std::size_t{64} * 1024;
constexpr std::chrono::seconds kDrainDeadline{5};  // only a log's file system that hangs takes longer

void Supervisor::perform(ReportEnded const& /*what*/) {
  ++ending_.number;
  timer_.after(kDrainDeadline, [this] {
    log(Level::warn, "the last lines of a worker are missing: its log file takes too long");
    ending_.drains = 1;
    drained();
  });
  ending_.drains = 1;  // our own hold, so that the count reaches zero once
  for (auto& member : members_) {
    auto const& worker = state_.workers[member.exit.local_rank];
    if (worker.life == GroupWorker::Life::parked) {
      continue;  // it goes on writing
    }
    // One that was given up on has had no exit to report; `ended` counts it as killed by us.
    member.exit.status = worker.status;
    member.exit.ours = worker.ours;
    for (auto const stream : std::exchange(member.streams, {})) {
      ++ending_.drains;
      drain(stream, member.exit.local_rank, member.stderr_stream == stream);
    }
  }
  drained();
}

// The callback comes on the pump's thread, which must not own us even for a moment: it only posts.
void Supervisor::drain(std::uint64_t stream, std::uint32_t local_rank, bool keep) {
  pump_.drain(stream, true,
              [&context = io_, weak = weak_from_this(), number = ending_.number, local_rank, keep](std::string tail) {
                asio::post(context, [weak, number, local_rank, keep, tail = std::move(tail)] {
                  if (auto const self = weak.lock();
                      self && self->ending_.number == number && self->ending_.drains > 0) {
                    if (keep) {
                      self->members_[local_rank].exit.stderr_tail = tail;
                    }
                    self->drained();
                  }
                });
              });
}

// Those that were parked when their generation ended have no exit in it, and none later.
void Supervisor::drained() {
  if (--ending_.drains > 0) {
    return;
  }
  std::vector<rendezvous::WorkerExit> exits;
  exits.reserve(members_.size());
  bool const again = std::exchange(told_, true);
  for (auto& member : members_) {
    if (again || state_.workers[member.exit.local_rank].life == GroupWorker::Life::parked) {
      continue;
    }
    if (!member.exit.status.ok() && !member.error_file.empty()) {
      member.exit.error_file = read_small_file(member.error_file, kErrorFileBytes);
    }
    exits.push_back(member.exit);
  }
  timer_.cancel();
  bool const waiting = state_.phase == GroupPhase::parked;
  if (!waiting) {
    members_.clear();
  }
  active_ = false;
  asio::post(io_, [weak = weak_from_this(), number = generation_, exits = std::move(exits),
                   unkillable = std::exchange(ending_.unkillable, {}), waiting] {
    if (auto const self = weak.lock(); self && self->handlers_.ended) {
      self->handlers_.ended(number, exits, unkillable, waiting);
    }
  });
}

}  // namespace cxxrun::launcher
