#include "src/gpu/nccl_peers.hpp"

#include <algorithm>
#include <thread>

#include "src/core/rank_name.hpp"
#include "src/core/text.hpp"

namespace cxxrun::gpu {
namespace {

/// NCCL may notice that a connection broke before the host backend learns who died: so long the name is waited for.
constexpr Millis kBlame{2000};
/// Ranks whose patience with one call ends this much apart still report at the same time.
constexpr Millis kHearing{5000};
constexpr Millis kTick{1};

}  // namespace

Peers::Peers(std::unique_ptr<host::Backend> host, NcclConfig const& config) : host_(std::move(host)), config_(config) {
  for (auto const& name : config.hosts) {
    names_.push_back(rank_name(static_cast<int>(names_.size()), name));
  }
}

bool Peers::run(comm::Call const& call, std::function<bool()> const& alive) {
  std::lock_guard const lock(mutex_);
  if (!alive()) {
    return false;
  }
  host_->run(call);
  return true;
}

host::FailureFacts Peers::settle(Reason const& reason, CallReport const& mine) noexcept try {
  if (reason.why == Reason::Why::told) {
    return reason.facts;
  }
  bool const error = reason.why == Reason::Why::error;
  Error mine_failed = error ? reason.error : fail(Errc::timeout, "a call on device memory was not done in time");
  mine_failed.context = here() + ": " + mine_failed.context;
  auto const own = host::facts_of(std::move(mine_failed));
  std::unique_lock const lock(mutex_, std::try_to_lock);
  if (!lock) {  // the call under way on another thread throws it, and tells the other nodes
    host_->abort(own);
    return own;
  }
  if (error && world() > 1) {
    auto const until = Clock::now() + std::min(kBlame, config_.op_timeout);
    while (host_->trouble() != host::Trouble::failed && Clock::now() < until) {
      std::this_thread::sleep_for(kTick);
    }
    if (host_->trouble() == host::Trouble::none) {
      host_->abort(own);
    }
  }
  std::vector<CallReport> told(static_cast<std::size_t>(world()));
  try {
    host_->run_within(
        {.kind = comm::Kind::all_gather, .type = DType::u8, .count = sizeof mine, .in = &mine, .out = told.data()},
        std::min(kHearing, config_.op_timeout));
  } catch (...) {
    return host::facts_of(std::current_exception(), here());
  }
  if (reason.why != Reason::Why::late) {
    return own;
  }
  return host::facts_of(fail(Errc::timeout, verdict(told, names_, seconds_text(config_.op_timeout))));
} catch (...) {
  return host::facts_of(std::current_exception(), here());
}

}  // namespace cxxrun::gpu
