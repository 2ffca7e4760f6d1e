#include "src/runtime/gpu/nccl_peers.hpp"

#include <algorithm>
#include <thread>

#include "src/base/core/text.hpp"

namespace cxxrun::gpu {
namespace {

/// NCCL may notice a broken connection before the host backend knows who died: how long to wait for the name.
constexpr Millis kBlame{2000};
constexpr Millis kBetweenLooks{1};

/// Ranks whose patience with one call ends at most this far apart still report at the same time.
Millis hearing(Millis op_timeout) {
  return std::min(op_timeout, std::clamp(op_timeout / 10, Millis(1000), Millis(5000)));
}

}  // namespace

std::string verdict(std::span<CallReport const> ranks, std::span<int const> numbers,
                    std::vector<std::string> const& names, std::string const& patience) {
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i].number == ranks[0].number && ranks[0].number != 0) {
      if (auto differs = comm::disagreement(numbers[0], call_of(ranks[0].call), numbers[i], call_of(ranks[i].call))) {
        return *std::move(differs);
      }
    }
  }
  auto const fewest =
      std::min_element(ranks.begin(), ranks.end(), [](auto const& a, auto const& b) { return a.made < b.made; });
  auto const most =
      std::max_element(ranks.begin(), ranks.end(), [](auto const& a, auto const& b) { return a.made < b.made; });
  auto const name = [&](auto const& at) { return names[static_cast<std::size_t>(at - ranks.begin())]; };
  if (fewest->made != most->made) {
    return name(most) + " has made " + std::to_string(most->made) + " calls on device memory and " + name(fewest) +
           " only " + std::to_string(fewest->made) +
           ": every rank makes the same calls, with buffers in the same kind of memory";
  }
  auto const stuck = std::find_if(ranks.begin(), ranks.end(), [](auto const& told) { return told.number != 0; });
  auto const at = stuck == ranks.end() ? ranks.begin() : stuck;
  return name(at) + ": " + (at->number == 0 ? "a call" : comm::describe(call_of(at->call))) + " was not done within " +
         patience +
         ", though every rank made it: NCCL is stuck, or blocked by calls of another Communicator, which all ranks "
         "must make in the same order; NCCL_DEBUG=INFO says more, nvidia-smi shows the state of the devices";
}

Peers::Peers(std::unique_ptr<host::Backend> host, NcclConfig const& config) : host_(std::move(host)), config_(config) {
  for (auto const& node : config.hosts) {
    auto const rank = numbers_.size();
    numbers_.push_back(config.names.empty() ? static_cast<int>(rank) : config.names[rank]);
    names_.push_back(rank_name(numbers_.back(), node));
  }
}

bool Peers::run(std::function<void(host::Backend&)> const& call, std::function<bool()> const& alive) {
  std::lock_guard const lock(mutex_);
  if (!alive()) {
    return false;
  }
  call(*host_);
  return true;
}

host::FailureFacts Peers::agree_on_failure(Reason const& reason, CallReport const& mine) noexcept try {
  if (reason.why == Reason::Why::told) {
    return reason.facts;
  }
  bool const error = reason.why == Reason::Why::error;
  Error mine_failed = error ? reason.error : fail(Errc::timeout, "a call on device memory was not done in time");
  mine_failed.context = here() + ": " + mine_failed.context;
  auto own = host::facts_of(std::move(mine_failed));
  auto const until = Clock::now() + std::min(kBlame, config_.op_timeout);
  std::unique_lock lock(mutex_, std::try_to_lock);
  while (!lock && Clock::now() < until) {  // a call in progress on another thread throws the peer's failure, too
    std::this_thread::sleep_for(kBetweenLooks);
    static_cast<void>(lock.try_lock());
  }
  if (!lock) {  // that call throws this, and tells the other nodes
    host_->abort(own);
    return own;
  }
  if (error && world() > 1) {
    while (host_->trouble() != host::Trouble::failed && Clock::now() < until) {
      std::this_thread::sleep_for(kBetweenLooks);
    }
    if (host_->trouble() == host::Trouble::none) {
      host_->abort(own);
    }
  }
  std::vector<CallReport> told(static_cast<std::size_t>(world()));
  host_->run_within(
      {.kind = comm::Kind::all_gather, .type = DType::u8, .count = sizeof mine, .in = &mine, .out = told.data()},
      hearing(config_.op_timeout));
  if (reason.why == Reason::Why::late) {
    own = host::facts_of(fail(Errc::timeout, verdict(told, numbers_, names_, seconds_text(config_.op_timeout))));
  }
  host_->abort(own);
  host_->run({.kind = comm::Kind::barrier});  // throws it: groups that share this rank learn of the failure that way
  return own;
} catch (...) {
  return host::facts_of(std::current_exception(), here());
}

}  // namespace cxxrun::gpu
