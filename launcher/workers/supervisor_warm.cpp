#include <cerrno>
#include <utility>

#include "launcher/workers/supervisor.hpp"
#include "src/os/log.hpp"

namespace cxxrun::launcher {

void Supervisor::warm_up(WorkerSpec const& like, std::string const& modules) {
  auto begun = Zygote::start(io_, like.argv, like.environment, modules, zygote_handlers());
  if (!begun) {
    log(Level::warn, "--warm has no effect: " + begun.error().context);
    return;
  }
  zygote_ = std::move(begun->zygote);
  zygote_pid_ = begun->pid;
  PumpStream said;
  said.fd = std::move(begun->output);
  said.to_stderr = true;
  said.prefix = like.prefix;
  tend(zygote_pid_, [weak = weak_from_this(), stream = pump_.add(std::move(said))] {
    if (auto const self = weak.lock()) {
      self->pump_.drain(stream, true, [](LastWords const& /*words*/) {});
      self->zygote_pid_ = 0;
      self->zygote_->ended(self->zygote_end_.value_or(ExitStatus{}));
    }
  });
}

bool Supervisor::start_warm(WorkerSpec const& spec, int capacity_bytes) {
  if (!zygote_ || !zygote_->takes(spec.argv) || !spec.keep.empty()) {
    return false;  // a fork would not have what this worker keeps
  }
  warm_[spec.local_rank] = {spec, capacity_bytes, {}};
  zygote_->want(spec.local_rank);
  return true;
}

ZygoteHandlers Supervisor::zygote_handlers() {  // called by the zygote alone, which is ours
  ZygoteHandlers on;
  on.open = [this](std::uint32_t local_rank) { return open_warm(local_rank); };
  on.forked = [this](std::uint32_t local_rank, pid_t pid) {
    auto& member = members_.at(local_rank);
    member.pending = std::move(warm_.extract(local_rank).mapped().streams);
    member.process.emplace(io_, pid);
    happen(Started{local_rank, pid});
    hand_to_pump(member);
  };
  on.execute = [this](std::uint32_t local_rank) {
    auto const warm = warm_.extract(local_rank);
    execute(warm.mapped().spec, members_.at(local_rank), warm.mapped().capacity_bytes);
    hand_to_pump(members_.at(local_rank));
    if (zygote_ && zygote_->frozen()) {
      freeze();
    }
    check_descendants();
  };
  on.dropped = [this](std::uint32_t local_rank) {
    warm_.erase(local_rank);
    start_failed(members_.at(local_rank), ECANCELED, "stopped before it was started", "");
  };
  return on;
}

}  // namespace cxxrun::launcher
