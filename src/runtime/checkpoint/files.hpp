// A checkpoint directory on disk: opening, locking, writing and reading whole files. Shell.
// docs/design/checkpoint_format.md describes the locks.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cxxrun/checkpoint.hpp"
#include "src/base/os/file_lock.hpp"
#include "src/runtime/checkpoint/format.hpp"

namespace cxxrun::checkpoint {

/// A file with a valid header whose step matches the file name.
struct OpenedFile {
  os::UniqueFd fd;
  Header header;
};

/// A checkpoint directory. Every function throws Failure with the path and the remedy.
class Directory {
 public:
  /// Creates the directory if its parent exists. Failure (permission) names another user who may have made it.
  explicit Directory(std::string path);

  /// Takes the lock. Holders only have short work to do: after `patience`, Failure (in_use), which names the holder if
  /// it is known.
  [[nodiscard]] os::FileLock lock(std::chrono::milliseconds patience = std::chrono::seconds(60)) const;

  /// The next five functions require the lock.
  void admit(Claim const& mine, When when) const;  ///< returns if this process may use the directory, else throws
  [[nodiscard]] os::UniqueFd make_temporary(std::uint64_t step, std::string& name) const;
  /// Renames the file, closes it, and forces the directory to disk.
  void publish(os::UniqueFd& file, std::string const& temporary, std::uint64_t step) const;
  /// Keeps the complete checkpoint of `step` and those of the highest other steps, `keep` in all. Removes the others,
  /// damaged ones older than the kept ones, and the temporary files of dead writers. What cannot be removed stays until
  /// the next call.
  void prune(std::uint64_t step, int keep) const;
  /// Only removes the temporary files of dead writers.
  void remove_stale() const;

  void remove(std::string const& name) const noexcept;
  /// Writes blobs, checksums and header into a temporary file and forces it to disk.
  void write(os::UniqueFd const& file, std::string const& name, Header header,
             std::vector<Checkpoint::Blob> const& blobs) const;

  [[nodiscard]] std::vector<std::uint64_t> steps() const;  ///< from the file names, highest first
  /// The header of a file of the right size, without reading the blobs. Errors as for decode(); not_found if the file
  /// has been removed.
  [[nodiscard]] Result<Header> header(std::uint64_t step) const;
  /// Reads the whole file and verifies all checksums.
  [[nodiscard]] Result<Checkpoint::Loaded> load(std::uint64_t step, std::string const& model) const;

  [[nodiscard]] std::string path_of(std::string const& name) const { return path_ + "/" + name; }
  /// For messages.
  [[nodiscard]] std::string title() const { return "checkpoint directory \"" + path_ + "\""; }

 private:
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] Result<os::UniqueFd> open_step(std::string const& name, struct stat& facts) const;
  [[nodiscard]] Result<OpenedFile> open_whole(std::uint64_t step) const;
  /// Whether the file belongs to another user than this one, root or the owner of the directory. Where others may
  /// write, anybody may leave a file; such a file is not trusted.
  [[nodiscard]] bool is_strangers(struct stat const& file) const;

  std::string path_;
  os::Folder folder_;
};

/// Failure (usage) if the file is of another model.
void require_model(std::string const& path, Header const& header, std::string const& model);

}  // namespace cxxrun::checkpoint
