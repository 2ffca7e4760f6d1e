#include <cerrno>
#include <chrono>
#include <utility>

#include "launcher/logs/log_file.hpp"
#include "launcher/logs/log_names.hpp"
#include "launcher/workers/supervisor.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/log.hpp"

namespace cxxrun::launcher {

constexpr std::chrono::milliseconds kLookForImports{500};
constexpr std::size_t kImportsBytes = std::size_t{64} << 10;
constexpr std::uint32_t kMostRefused = 5;

void Supervisor::warm_up(WorkerSpec const& like, std::string const& modules) {
  imported_.like = like;
  imported_.automatic = modules == kWarmAuto;
  if (!imported_.automatic) {
    start_zygote(modules);
  } else if (auto const command = warm_command(like.argv); !command) {
    log(Level::warn, "--warm has no effect: " + command.error().context);
    imported_.like.argv.clear();
  }
}

void Supervisor::start_zygote(std::string const& modules) {
  auto const& like = imported_.like;
  auto begun = Zygote::start(io_, like.argv, like.environment, modules, zygote_handlers());
  if (!begun) {
    log(Level::warn, "--warm has no effect: " + begun.error().context);
    return;
  }
  zygote_ = std::move(begun->zygote);
  zygote_end_.reset();
  zygote_pid_ = begun->pid;
  PumpStream said;
  said.fd = std::move(begun->output);
  said.to_stderr = true;
  said.prefix = like.prefix;
  tend(zygote_pid_, [weak = weak_from_this(), stream = pump_.add(std::move(said))] {
    if (auto const self = weak.lock()) {
      self->pump_.drain(stream, true, [](LastWords const& /*words*/) {});
      self->zygote_ended();
    }
  });
}

void Supervisor::zygote_ended() {
  zygote_pid_ = 0;
  zygote_->ended(zygote_end_.value_or(ExitStatus{}));
  if (std::exchange(imported_.again, false)) {
    start_zygote(modules_of(imported_.wanted));
  }
}

/// As long as the generation runs, or until its first worker has told what it imports.
void Supervisor::listen_for_imports() {
  if (!imported_.like.argv.empty() && !members_.empty() && !members_.front().error_file.empty()) {
    imported_.timer.after(kLookForImports, [this] { hear_imports(true); });
  }
}

void Supervisor::hear_imports(bool may_start) {
  if (imported_.like.argv.empty() || members_.empty() || members_.front().error_file.empty()) {
    return;
  }
  auto imports = parse_imports(read_worker_file(imports_file(members_.front().error_file), kImportsBytes));
  if (imports.empty()) {
    return listen_for_imports();
  }
  imported_.timer.cancel();
  if (members_.front().forked) {
    auto const line = left_out_line(imports, imported_.automatic);
    if (!line.empty() && !std::exchange(imported_.said, true)) {
      log(Level::warn, line);
    }
  } else if (may_start && imported_.automatic && imported_.wanted.empty() && !zygote_) {
    imported_.wanted = std::move(imports);
    start_zygote(modules_of(imported_.wanted));
  }
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
    member.forked = true;
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
  on.refused = [this](std::string const& module) {
    if (imported_.automatic && ++imported_.refused <= kMostRefused) {
      imported_.wanted = without(std::move(imported_.wanted), module);
      imported_.again = !imported_.wanted.empty();
      log(Level::info, "--warm=auto: the next warm Python leaves out " + printable(module, 80));
    }
  };
  on.dropped = [this](std::uint32_t local_rank) {
    warm_.erase(local_rank);
    start_failed(members_.at(local_rank), ECANCELED, "stopped before it was started", "");
  };
  return on;
}

}  // namespace cxxrun::launcher
