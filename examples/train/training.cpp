#include "train/training.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "cxxrun/failure.hpp"

namespace train {
namespace {

using cxxrun::Checkpoint;
using cxxrun::Communicator;
using cxxrun::on_rank_0;

}  // namespace

Training::Training(Trainer& trainer, Options options) : options_(std::move(options)), trainer_(trainer) {}

void Training::attach(Communicator& comm) {
  trainer_.attach(comm);
  generation_ = comm.generation();
  begun_ = loaded_ = false;
  progress_.emplace(options_.quiet || comm.rank() != 0, options_.steps);
  if (comm.rank() != 0) {
    checkpoint_.reset();
    curve_.reset();
  }
  progress_->say(comm.describe());
}

// A directory is kept for one generation: whoever belongs to an older one, and is not dead after all, cannot save.
Checkpoint& Training::checkpoint() {
  if (!checkpoint_ || checkpoint_of_ != generation_) {
    checkpoint_.reset();
    checkpoint_.emplace(Checkpoint::Options{.directory = options_.checkpoint_directory,
                                            .model = trainer_.name(),
                                            .refuse_damaged = options_.refuse_damaged},
                        generation_);
    checkpoint_of_ = generation_;
  }
  return *checkpoint_;
}

void Training::load() {
  auto const saved = saves() ? checkpoint().latest() : std::nullopt;
  if (!saved) {
    return;
  }
  for (std::string const& line : saved->skipped) {
    progress_->say("passed over: " + line);
  }
  trainer_.restore(*saved);
  loaded_ = true;
  progress_->say("resumed after step " + std::to_string(saved->step) + " in generation " + std::to_string(generation_));
}

void Training::share(Communicator& /*comm*/, int donor) {
  trainer_.share(donor);
}

// A rank 0 that died may have done a step that is not in its curve yet, and the others have it in their state.
void Training::begin(Communicator& comm) {
  auto const& state = trainer_.state();
  if (!loaded_ && state.step > 0) {
    progress_->say("goes on after step " + std::to_string(state.step) + " in generation " +
                   std::to_string(generation_));
  }
  on_rank_0(comm, [&] {
    if (!curve_ || curve_->last() != state.step) {
      curve_.emplace(options_.curve, state.step);
    }
    if (curve_->last() < state.step) {
      curve_->add(state.step, state.loss, comm.world_size(), comm.env().restart_count);
    }
  });
  begun_ = true;
}

bool Training::step(Communicator& comm) {
  if (!begun_) {
    begin(comm);
  }
  if (completed() < options_.steps) {
    note(comm, trainer_.step());
    if (saves() && (completed() % options_.save_every == 0 || completed() == options_.steps)) {
      save(comm);
    }
  }
  if (completed() < options_.steps) {
    return true;
  }
  finish(comm);
  return false;
}

void Training::note(Communicator& comm, std::uint64_t samples) {
  auto const& state = trainer_.state();
  progress_->step(state.step, state.loss, samples);
  if (curve_) {
    curve_->add(state.step, state.loss, comm.world_size(), comm.env().restart_count);
  }
}

void Training::save(Communicator& comm) {
  // Throws what the last one met.
  on_rank_0(comm, [&] { checkpoint().save_async(completed(), trainer_.blobs()); });
}

void Training::finish(Communicator& comm) {
  on_rank_0(comm, [&] {
    if (checkpoint_) {
      checkpoint_->wait();
    }
  });
  std::uint64_t const hash = trainer_.hash();
  auto const all = comm.all_gather_value(hash);
  auto const other = std::find_if(all.begin(), all.end(), [&](std::uint64_t each) { return each != all.front(); });
  if (other != all.end()) {
    throw cxxrun::Failure({cxxrun::Errc::protocol, "the parameters of rank " + std::to_string(other - all.begin()) +
                                                       " are not those of rank 0: a rank calculated something else"});
  }
  if (comm.rank() == 0 && !std::exchange(told_, true)) {
    char line[96];
    std::snprintf(line, sizeof line, "final loss %.6f after %llu steps, parameters %016llx", trainer_.state().loss,
                  static_cast<unsigned long long>(completed()), static_cast<unsigned long long>(hash));
    progress_->last(line);
  }
}

}  // namespace train
