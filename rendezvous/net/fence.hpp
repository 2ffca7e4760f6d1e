// The fence file (--fence=DIR): decides which half continues when a partition has half of the members on each side.
// Shell.
//
// There is one file for each decision of a run. It is linked into place and never changed, so the first to link it has
// decided. The protocol, and what it assumes about a shared file system: docs/design/election.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cxxrun/error.hpp"
#include "rendezvous/trust/key.hpp"
#include "rendezvous/values/decree.hpp"
#include "src/base/os/thread.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

class KeyRing;

/// Identifies a decision of a run.
struct FencePlace {
  std::string dir;     ///< --fence; every node sees the same one
  std::string run_id;  ///< any text
  std::string mark;  ///< derived from the run's key, so that nobody else can make the directory first; "" = --auth none
  /// Digest of the members that decide: a requeued job uses the run id and numbers of its first run again.
  std::uint64_t of = 0;
};

/// 16 hexadecimal digits, the same for all members of a run. A requeued job has another key, hence another mark.
[[nodiscard]] std::string fence_mark(std::optional<Key> const& key, std::string const& run_id);

/// DIR/<run id>-<mark>/after-<g>-<of>. Characters of the run id that are unusual in file names are written as %XX.
[[nodiscard]] std::string fence_path(FencePlace const& place, std::uint64_t after);
/// Checks that claims in `dir` are possible and reliable: hard links work, and no other user can replace it or a
/// directory in it. Makes a file there with `unique` in its name, since other nodes may check at the same time. The
/// error says what is wrong and what to do. Blocks as long as the file system does.
[[nodiscard]] Result<void> check_fence(std::string const& dir, std::string const& unique);
/// Claims the file for `value`. Returns what it holds: `value`, or the decree that was first. Blocks.
[[nodiscard]] Fenced claim_fence(FencePlace const& place, AcceptedDecree const& value);
/// Removes the fence files of a run that has ended, except files of other users.
void remove_fences(FencePlace const& place);

/// The same on threads, so that a hanging file system does not block the agent.
class FenceClaims {
 public:
  /// `dir`: --fence; "" = none. `keys`: null with --auth none.
  FenceClaims(boost::asio::io_context& io, std::string dir, std::shared_ptr<KeyRing> keys);
  ~FenceClaims();  ///< Waits for a removal under way, 2 s at most; no handler runs afterwards.
  FenceClaims(FenceClaims const&) = delete;
  FenceClaims& operator=(FenceClaims const&) = delete;

  /// Runs `done` once, from the io_context, within 10 s whatever the file system does; at once if there is no
  /// directory.
  void claim(std::string const& run_id, std::uint64_t of, AcceptedDecree const& value,
             std::function<void(Fenced)> done);
  void remove(std::string const& run_id);

 private:
  [[nodiscard]] FencePlace place(std::string const& run_id, std::uint64_t of) const;

  boost::asio::io_context& io_;
  std::string dir_;
  std::shared_ptr<KeyRing> keys_;
  std::unique_ptr<os::BoundedThread> removing_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>();  ///< handlers check whether this object still exists
};

}  // namespace cxxrun::rendezvous
