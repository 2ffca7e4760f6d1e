// train: trains a small GPT on all ranks of the job. examples/train/README.md says how to start it.
#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <thread>

#include "cxxrun/checkpoint.hpp"
#include "cxxrun/communicator.hpp"
#include "cxxrun/failure.hpp"
#include "cxxrun/worker_env.hpp"
#include "train/curve.hpp"
#include "train/progress.hpp"
#include "train/trainer.hpp"

namespace {

using cxxrun::Checkpoint;
using cxxrun::Communicator;
using cxxrun::Failure;
using cxxrun::WorkerEnv;
using train::Options;
using train::Progress;
using train::Trainer;

constexpr int kPeerFailed = 75;  // sysexits.h: try again

/// Rank 0 does it; a Failure there is thrown on every rank, so that nobody takes it for the death of a peer.
template <class Action>
void on_rank_0(Communicator& comm, Action const& action) {
  std::string complaint;
  if (comm.rank() == 0) {
    try {
      action();
    } catch (Failure const& failure) {
      complaint = failure.what();
    }
  }
  auto length = static_cast<std::int64_t>(complaint.size());
  comm.broadcast(std::span(&length, 1));
  if (length > 0) {
    complaint.resize(static_cast<std::size_t>(length));
    comm.broadcast(std::span(reinterpret_cast<std::uint8_t*>(complaint.data()), complaint.size()));
    throw Failure({cxxrun::Errc::io, complaint});
  }
}

/// Takes up what the latest checkpoint holds, if there is one.
void resume(Checkpoint const& checkpoint, WorkerEnv const& env, Trainer& trainer, Progress& progress) {
  auto const saved = checkpoint.latest();
  if (!saved) {
    return;
  }
  for (std::string const& line : saved->skipped) {
    progress.say("passed over: " + line);
  }
  trainer.restore(*saved);
  progress.say("resumed after step " + std::to_string(saved->step) + " in generation " +
               std::to_string(env.generation));
}

void print_last(Progress& progress, Trainer::State const& state, std::uint64_t hash) {
  char line[96];
  std::snprintf(line, sizeof line, "final loss %.6f after %llu steps, parameters %016llx", state.loss,
                static_cast<unsigned long long>(state.step), static_cast<unsigned long long>(hash));
  progress.last(line);
}

void run(Options const& options, WorkerEnv const& env) {
  // What can fail on its own comes before the ranks meet.
  train::Text const text(options.text.empty() ? std::string(train::built_in_text()) : train::Text::read(options.text),
                         train::Shape{}.context);
  Communicator comm = Communicator::init(env, {});
  Trainer trainer(comm, text, options);
  Progress progress(options.quiet || comm.rank() != 0, options.steps);
  std::optional<Checkpoint> checkpoint;
  std::optional<train::Curve> curve;
  on_rank_0(comm, [&] {
    progress.say(comm.describe());
    if (!options.checkpoint_directory.empty()) {
      checkpoint.emplace(Checkpoint::Options{.directory = options.checkpoint_directory, .model = trainer.name()},
                         env.generation);
      resume(*checkpoint, env, trainer, progress);
    }
    curve.emplace(options.curve, trainer.state().step);
  });
  trainer.share();

  bool const saves = !options.checkpoint_directory.empty();
  while (trainer.state().step < options.steps) {
    std::uint64_t const samples = trainer.step();
    auto const& state = trainer.state();
    progress.step(state.step, state.loss, samples);
    if (curve) {
      curve->add(state.step, state.loss, comm.world_size(), env.restart_count);
    }
    if (saves && (state.step % options.save_every == 0 || state.step == options.steps)) {
      on_rank_0(comm, [&] { checkpoint->save_async(state.step, trainer.blobs()); });  // throws what the last one met
    }
  }
  on_rank_0(comm, [&] {
    if (checkpoint) {
      checkpoint->wait();
    }
  });
  std::uint64_t const hash = trainer.hash();
  if (comm.rank() == 0) {
    print_last(progress, trainer.state(), hash);
  }
  comm.barrier();  // nobody leaves while another still reads
}

int complain(char const* what, int code) {
  std::fprintf(stderr, "train: %s\n", what);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  auto const options = train::parse(std::span<char const* const>(argv, static_cast<std::size_t>(argc)).subspan(1));
  if (!options) {
    return complain(options.error().message().c_str(), 1);
  }
  if (options->help) {
    std::fputs(train::usage().c_str(), stdout);
    return 0;
  }
  try {
    run(*options, cxxrun::or_throw(WorkerEnv::from_environment()));
    return 0;
  } catch (cxxrun::PeerFailure const& failure) {
    complain(failure.what(), kPeerFailed);
    // The launcher should hear of the cause before it hears of this consequence. It usually ends this process first.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    return kPeerFailed;
  } catch (std::exception const& failure) {
    return complain(failure.what(), 1);
  }
}
