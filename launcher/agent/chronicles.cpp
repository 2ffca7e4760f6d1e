#include "launcher/agent/chronicles.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

#include "launcher/logs/log_dir.hpp"
#include "src/base/os/log.hpp"

namespace cxxrun::launcher {
namespace {

/// "": it cannot be made, and the run goes on without.
std::string directory_of(std::string const& log_dir, std::string const& run_id, std::string const& host) {
  auto const root = make_log_root(log_dir, run_id, host, "");
  if (!root) {
    log(Level::warn, root.error().message());
  }
  return root ? root->path : "";
}

}  // namespace

Chronicles::Chronicles(std::string log_dir, std::string host) : log_dir_(std::move(log_dir)), host_(std::move(host)) {}

Result<Chronicles> Chronicles::in(std::string const& log_dir, std::string host) {
  if (auto const made = make_log_dir(log_dir); !made) {
    return made.error();
  }
  std::error_code failed;
  auto const whole = std::filesystem::absolute(log_dir, failed);
  return Chronicles(failed ? log_dir : whole.lexically_normal().string(), std::move(host));
}

std::string Chronicles::add(std::string const& run_id, rendezvous::story::Event const& event) {
  auto& chronicle = of_runs_[run_id];
  if (!chronicle) {
    auto const dir = log_dir_.empty() ? "" : directory_of(log_dir_, run_id, host_);
    chronicle = std::make_unique<Chronicle>(ChroniclePlace{dir, run_id, host_});
  }
  return chronicle->add(event);
}

void Chronicles::conclude(std::string const& run_id, rendezvous::Verdict const& verdict) {
  if (auto const it = of_runs_.find(run_id); it != of_runs_.end()) {
    it->second->conclude(verdict);
    of_runs_.erase(it);  // the id may name another run later
  }
}

}  // namespace cxxrun::launcher
