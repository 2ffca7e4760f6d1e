#include "cxxrun/checkpoint.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>

#include "src/base/os/system.hpp"
#include "src/base/os/thread.hpp"
#include "src/base/worker/agent_link.hpp"
#include "src/base/worker/recorder.hpp"
#include "src/runtime/checkpoint/files.hpp"

namespace cxxrun {

using namespace checkpoint;  // NOLINT(google-build-using-namespace)

namespace {

Header header_of(std::uint64_t step, std::uint64_t generation, std::string const& model,
                 std::vector<Checkpoint::Blob> const& blobs) {
  Header header{step, generation, model, {}};
  for (auto const& blob : blobs) {
    header.blobs.push_back({blob.name, blob.bytes.size(), 0});
  }
  if (auto const why_not = refusal(header)) {
    throw Failure(fail(Errc::usage, "checkpoint of step " + std::to_string(step) + ": " + *why_not));
  }
  return header;
}

// Reports to the agent how long the caller was blocked here: the job's time accounting lists it apart from training.
class CheckpointTimer {
 public:
  CheckpointTimer() = default;
  CheckpointTimer(CheckpointTimer const&) = delete;
  CheckpointTimer& operator=(CheckpointTimer const&) = delete;
  ~CheckpointTimer() {
    if (auto* const page = worker::process_page()) {
      worker::note_checkpoint(*page, Clock::now() - since_);
    }
  }

 private:
  TimePoint since_ = Clock::now();
};

// A temporary file; removed on destruction unless it was published.
struct Temporary {
  Directory const& directory;
  std::string name{};
  os::UniqueFd fd{};
  Temporary(Directory const& where) : directory(where) {}  // NOLINT(google-explicit-constructor)
  Temporary(Temporary const&) = delete;
  Temporary& operator=(Temporary const&) = delete;
  ~Temporary() {
    if (fd) {
      directory.remove(name);
    }
  }
};

}  // namespace

struct Checkpoint::Impl {
  Options options;
  Claim claim;
  Directory directory;
  std::vector<std::byte> buffer{};  // of save_async(); belongs to the thread while one runs
  std::thread thread{};
  std::exception_ptr failed{};  // set by the thread; read after it was joined
  mutable std::mutex mutex{};
  std::optional<std::uint64_t> saved{};  // under the mutex

  Impl(Options given, std::uint64_t generation)
      : options(std::move(given)),
        // In the form in which it will be read back, so that the two compare equal.
        claim(parse_claim(
                  format_claim({options.run.empty() ? os::variable("TORCHELASTIC_RUN_ID") : options.run, generation}))
                  .value_or(Claim{"", generation})),
        directory(options.directory) {}

  /// Checks the options and the model of existing checkpoints, and claims the directory.
  void open() {
    if (options.keep < 1) {
      throw Failure(fail(Errc::usage, "checkpoint directory \"" + options.directory + "\": keep is " +
                                          std::to_string(options.keep) + ", and must be at least 1"));
    }
    (void)header_of(0, 0, options.model, {});
    auto const lock = directory.lock();
    for (std::uint64_t const step : directory.steps()) {
      if (auto const header = directory.header(step)) {
        require_model(directory.path_of(file_name(step)), *header, options.model);
      }
    }
    directory.admit(claim, When::opening);
    directory.remove_stale();
  }

  /// Writes the state at `of` without the lock, since that may take minutes. The claim is checked under the lock before
  /// and after.
  void write(Header const& header, std::vector<Blob> const& blobs, TimePoint of) {
    Temporary temporary(directory);
    {
      auto const lock = directory.lock();
      directory.admit(claim, When::saving);
      temporary.fd = directory.make_temporary(header.step, temporary.name);
    }
    directory.write(temporary.fd, temporary.name, header, blobs);
    auto const lock = directory.lock();
    directory.admit(claim, When::saving);  // a newer generation may have come during the write
    directory.publish(temporary.fd, temporary.name, header.step);
    {
      std::lock_guard const guard(mutex);
      saved = saved ? std::max(*saved, header.step) : header.step;
    }
    if (auto* const page = worker::process_page()) {
      worker::note_saved(*page, of);
    }
    try {
      directory.prune(header.step, options.keep);
    } catch (Failure const&) {  // the checkpoint is saved; the next save tries to prune again
    }
  }

  void wait() {
    if (thread.joinable()) {
      thread.join();
    }
    if (failed) {
      std::rethrow_exception(std::exchange(failed, nullptr));
    }
  }

  std::vector<Blob> copy(std::vector<Blob> const& blobs) {
    std::size_t bytes = 0;
    for (Blob const& blob : blobs) {
      bytes += blob.bytes.size();
    }
    buffer.clear();
    buffer.reserve(bytes);
    std::vector<Blob> copies;
    for (Blob const& blob : blobs) {
      copies.push_back({blob.name, {buffer.data() + buffer.size(), blob.bytes.size()}});
      buffer.insert(buffer.end(), blob.bytes.begin(), blob.bytes.end());
    }
    return copies;
  }
};

Checkpoint::Checkpoint(Options options, std::uint64_t generation)
    : impl_(std::make_unique<Impl>(std::move(options), generation)) {
  CheckpointTimer const timer;
  impl_->open();
}

Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;

Checkpoint::~Checkpoint() {
  if (impl_ && impl_->thread.joinable()) {
    CheckpointTimer const timer;
    impl_->thread.join();
  }
}

void Checkpoint::save(std::uint64_t step, std::vector<Blob> const& blobs) {
  CheckpointTimer const timer;
  impl_->wait();
  impl_->write(header_of(step, impl_->claim.generation, impl_->options.model, blobs), blobs, Clock::now());
}

void Checkpoint::save_async(std::uint64_t step, std::vector<Blob> const& blobs) {
  CheckpointTimer const timer;
  impl_->wait();
  auto header = header_of(step, impl_->claim.generation, impl_->options.model, blobs);
  auto copies = impl_->copy(blobs);
  impl_->thread = os::start_quiet_thread(
      [impl = impl_.get(), head = std::move(header), from = std::move(copies), of = Clock::now()] {
        try {
          impl->write(head, from, of);
        } catch (...) {
          impl->failed = std::current_exception();
        }
      });
}

void Checkpoint::wait() {
  CheckpointTimer const timer;
  impl_->wait();
}

std::optional<std::uint64_t> Checkpoint::saved_step() const {
  std::lock_guard const guard(impl_->mutex);
  return impl_->saved;
}

std::optional<Checkpoint::Loaded> Checkpoint::latest() const {
  CheckpointTimer const timer;
  std::vector<std::string> skipped;
  auto steps = impl_->directory.steps();
  for (std::size_t i = 0; i < steps.size();) {
    auto loaded = impl_->directory.load(steps[i], impl_->options.model);
    if (loaded) {
      loaded->skipped = std::move(skipped);
      return *std::move(loaded);
    }
    auto const now = impl_->directory.steps();
    // The file was pruned after it was listed, so a newer checkpoint exists. Or another writer has replaced it.
    if (loaded.error().code == Errc::not_found || std::find(now.begin(), now.end(), steps[i]) == now.end()) {
      skipped.clear();
      steps = now;
      i = 0;
      continue;
    }
    skipped.push_back(impl_->directory.path_of(file_name(steps[i])) + ": " + loaded.error().message());
    ++i;
  }
  if (impl_->options.refuse_damaged && !skipped.empty()) {
    std::string const others = skipped.size() > 1 ? " (and " + std::to_string(skipped.size() - 1) + " more)" : "";
    throw Failure(fail(Errc::protocol, impl_->directory.title() +
                                           ": all of its checkpoints are damaged: " + skipped.front() + others +
                                           "; restore one, or use an empty directory to start from scratch"));
  }
  return std::nullopt;
}

std::span<std::byte const> Checkpoint::Loaded::blob(std::string_view name) const {
  auto const found = std::find_if(blobs.begin(), blobs.end(), [&](auto const& each) { return each.first == name; });
  if (found == blobs.end()) {
    throw Failure(fail(Errc::not_found, path + " has no blob \"" + std::string(name) + "\""));
  }
  return found->second;
}

}  // namespace cxxrun
