// Checkpoint: a directory of checkpoints in which the newest complete one is always found.
//
//   cxxrun::Checkpoint checkpoint({.directory = "ckpt", .model = "gpt-4x128"}, env.generation);
//   if (auto saved = checkpoint.latest()) { step = saved->step; … saved->blob("weights") … }
//   if (comm.rank() == 0) checkpoint.save(step, {{"weights", bytes_of(weights)}, …});
//
// A file is written under a temporary name, forced to disk and renamed, and the directory is forced to disk: whenever a
// process or node dies, the last complete checkpoint is there. Every blob has a checksum; latest() skips files that are
// incomplete or damaged and reports them in `skipped`. docs/design/checkpoint_format.md describes the bytes.
//
// One process writes (usually rank 0), any number read. Generations protect against a writer that is still running
// after its node was given up: constructing a Checkpoint raises the directory's generation, and a process of an older
// generation is refused from then on, even in the middle of a save. A new run of the job, whose generations count from
// the start again, takes the directory over.
//
// Blocking: save() and latest() for as long as the disk takes. Threads: one at a time; save_async() uses a thread of
// its own. Errors: Failure; io for the disk (full or not writable, with the path and the remedy), refused for an older
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

/// See the top of this file.
class Checkpoint {
 public:
  struct Options {
    /// Created if it does not exist; its parent must. Refused if another user may have made it.
    std::string directory;
    std::string model;     ///< names what is saved; a checkpoint with another name is refused
    int keep = 3;          ///< complete checkpoints to keep; older ones are removed after a save; at least 1
    std::string run = {};  ///< WorkerEnv::run_id; empty: TORCHELASTIC_RUN_ID of the environment
    /// If there are checkpoints and all are damaged: true: latest() throws a Failure (protocol); false: that counts as
    /// an empty directory, so training starts from scratch, and its saves replace and remove the damaged files.
    bool refuse_damaged = false;
  };
  /// Bytes under a name. The bytes belong to the caller.
  struct Blob {
    std::string name;
    std::span<std::byte const> bytes;
  };
  /// A checkpoint read from disk.
  struct Loaded {
    std::uint64_t step = 0;
    std::uint64_t generation = 0;
    std::string path;
    std::vector<std::pair<std::string, std::vector<std::byte>>> blobs;
    std::vector<std::string> skipped;  ///< newer files that were damaged, one line each
    /// The blob of that name. Failure (not_found) if there is none.
    [[nodiscard]] std::span<std::byte const> blob(std::string_view name) const;
  };

  /// Opens the directory. Failure as above; in_use if another process holds the directory's lock for a minute.
  Checkpoint(Options options, std::uint64_t generation);
  ~Checkpoint();  ///< waits for a save in progress
  Checkpoint(Checkpoint const&) = delete;
  Checkpoint& operator=(Checkpoint const&) = delete;
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) = delete;

  /// Returns when the checkpoint of `step` is on disk; replaces one of the same step. latest() finds the highest step:
  /// to start from scratch, use an empty directory. Names have at most 255 bytes and no control characters.
  void save(std::uint64_t step, std::vector<Blob> const& blobs);

  /// Copies the blobs into an internal buffer and returns; a thread writes them. First waits for the previous save if
  /// it is still running. If that one failed, throws its failure and saves nothing: call it again. save() does the
  /// same.
  void save_async(std::uint64_t step, std::vector<Blob> const& blobs);
  /// Blocks until no save is in progress; throws the failure of the last one.
  void wait();
  /// The highest step saved by this object, once its rename is on disk. Callable from any thread.
  [[nodiscard]] std::optional<std::uint64_t> saved_step() const;

  /// The complete checkpoint with the highest step, or nothing. A file that cannot be read for lack of permission, or
  /// that has a later format, is a Failure and is not skipped. See Options::refuse_damaged.
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
