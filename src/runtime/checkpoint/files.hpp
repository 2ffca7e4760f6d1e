// A checkpoint directory on disk: opening, locking, writing and reading whole files. Shell; who holds which lock, and
// why: docs/design/checkpoint_format.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cxxrun/checkpoint.hpp"
#include "src/base/os/file_lock.hpp"
#include "src/runtime/checkpoint/format.hpp"

namespace cxxrun::checkpoint {

/// A file whose header is whole and of the step in its name.
struct Opened {
  os::UniqueFd fd;
  Header header;
};

/// Every function throws Failure, with the path and the remedy.
class Directory {
 public:
  /// Makes the directory if its parent exists. Failure (permission) naming the user who may have made it beforehand.
  explicit Directory(std::string path);

  /// Failure (in_use), when it is not to be had in time: holders have only short work to do. It names the holder, where
  /// that is known.
  [[nodiscard]] os::FileLock lock(std::chrono::milliseconds patience = std::chrono::seconds(60)) const;

  /// These five need the lock.
  void admit(Claim const& mine, When when) const;  ///< throws, or the directory is ours
  [[nodiscard]] os::UniqueFd make_temporary(std::uint64_t step, std::string& name) const;
  /// Renames, closes `file`, and forces the directory to disk.
  void publish(os::UniqueFd& file, std::string const& temporary, std::uint64_t step) const;
  /// Removes whole checkpoints but `keep` of the highest steps and that of `step`, damaged ones older than all that
  /// stay, and what dead writers left. What cannot be removed stays until the next time.
  void prune(std::uint64_t step, int keep) const;
  /// The last part of prune() alone.
  void remove_stale() const;

  void remove(std::string const& name) const noexcept;
  /// Fills a temporary with blobs, checksums and header, and forces it to disk.
  void write(os::UniqueFd const& file, std::string const& name, Header header,
             std::vector<Checkpoint::Blob> const& blobs) const;

  [[nodiscard]] std::vector<std::uint64_t> steps() const;  ///< by name, highest first
  /// The header of a file of the right size; the blobs are not looked at. Errors as of decode(), not_found when
  /// the file has gone.
  [[nodiscard]] Result<Header> header(std::uint64_t step) const;
  /// The same with everything in it, all checksums right.
  [[nodiscard]] Result<Checkpoint::Loaded> load(std::uint64_t step, std::string const& model) const;

  [[nodiscard]] std::string path_of(std::string const& name) const { return path_ + "/" + name; }
  /// For messages.
  [[nodiscard]] std::string title() const { return "checkpoint directory \"" + path_ + "\""; }

 private:
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] Result<os::UniqueFd> open_step(std::string const& name, struct stat& facts) const;
  [[nodiscard]] Result<Opened> open_whole(std::uint64_t step) const;
  /// Where others may write, anybody may leave a file: to be believed is that of this user, root or the directory's
  /// owner, who is no stranger.
  [[nodiscard]] bool is_strangers(struct stat const& file) const;

  std::string path_;
  os::Folder folder_;
};

/// Failure (usage) when the file is of another model.
void require_model(std::string const& path, Header const& header, std::string const& model);

}  // namespace cxxrun::checkpoint
