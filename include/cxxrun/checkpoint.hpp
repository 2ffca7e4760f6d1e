// Checkpoint: a directory of checkpoints of which the newest whole one is always found.
//
//   cxxrun::Checkpoint checkpoint({.directory = "ckpt", .model = "gpt-4x128"}, env.generation);
//   if (auto saved = checkpoint.latest()) { step = saved->step; … saved->blob("weights") … }
//   if (comm.rank() == 0) checkpoint.save(step, {{"weights", bytes_of(weights)}, …});
//
// A file is written under another name, forced to disk, renamed, and its directory forced to disk: whenever a process
// or node dies, the last complete checkpoint is there. Every blob has a checksum; latest() passes over files that are
// torn or damaged and says so through `skipped`. docs/design/checkpoint_format.md has the bytes.
//
// One process writes (usually rank 0), any number read. Generations guard against a writer that lives on after its
// node was given up: making a Checkpoint raises the directory's generation, and who belongs to an older one is refused
// from then on, also in the middle of a save. A new run of the job, whose generations begin anew, takes it over.
//
// Blocking: save() and latest() as long as the disk takes. Threads: one at a time; save_async() works on a thread of
// its own. Errors: Failure; io for the disk (full, not writable: with the path and the remedy), refused for an older
// generation, usage for a checkpoint of another model.
#pragma once

#include "cxxrun/version.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cxxrun/failure.hpp"

namespace cxxrun {

class Checkpoint {
 public:
  struct Options {
    std::string directory;  ///< made when it does not exist (its parent must); not one that a stranger has made
    std::string model;      ///< names what is saved; a checkpoint of another name is refused
    int keep = 3;           ///< whole checkpoints that stay; older ones are removed after a save; at least 1
    std::string run = {};   ///< WorkerEnv::run_id; empty: TORCHELASTIC_RUN_ID of the environment
    /// latest() throws a Failure (protocol) when there are checkpoints and all are damaged. Without it that is like an
    /// empty directory: training begins anew, and its saves replace and remove what is there.
    bool refuse_damaged = false;
  };
  struct Blob {
    std::string name;
    std::span<std::byte const> bytes;
  };
  struct Loaded {
    std::uint64_t step = 0;
    std::uint64_t generation = 0;
    std::string path;
    std::vector<std::pair<std::string, std::vector<std::byte>>> blobs;
    std::vector<std::string> skipped;  ///< newer files that were damaged, one line each
    /// Failure (not_found) when there is none of that name.
    [[nodiscard]] std::span<std::byte const> blob(std::string_view name) const;
  };

  /// Failure as above; in_use when another process holds the directory's lock for a minute.
  Checkpoint(Options options, std::uint64_t generation);
  ~Checkpoint();  ///< waits for a save in flight
  Checkpoint(Checkpoint const&) = delete;
  Checkpoint& operator=(Checkpoint const&) = delete;
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) = delete;

  /// Returns when the checkpoint of `step` is on disk. One of the same step is replaced. latest() finds the highest
  /// step: to begin anew, take an empty directory. Names are at most 255 bytes without control characters.
  void save(std::uint64_t step, std::vector<Blob> const& blobs);

  /// Copies the blobs into a buffer that is kept, and returns; a thread writes them. Waits for the save before it, if
  /// that still runs; throws what that one failed with (and saves nothing: call it again). save() does the same.
  void save_async(std::uint64_t step, std::vector<Blob> const& blobs);
  /// Blocks until no save is in flight; throws what the last one failed with.
  void wait();
  /// The highest step that this object has saved, once its rename is on disk. May be called from any thread.
  [[nodiscard]] std::optional<std::uint64_t> saved_step() const;

  /// The whole checkpoint with the highest step, or nothing. A file that is there and may not be read, or is of a
  /// later format, is a Failure and not passed over. See Options::refuse_damaged.
  [[nodiscard]] std::optional<Loaded> latest() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The bytes of a vector or span of trivially copyable values, for Blob.
template <class Values>
[[nodiscard]] std::span<std::byte const> bytes_of(Values const& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace cxxrun
