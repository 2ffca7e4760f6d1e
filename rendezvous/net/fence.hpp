// The fence file: who decides when exactly half of the members are on each side of a cut (--fence=DIR). Shell.
//
// One file for each decision of a run, which is linked into place and never changed: the first to link it has decided.
// The protocol, and what it may believe of a shared file system: docs/design/election.md. The result is Fenced's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cxxrun/error.hpp"
#include "rendezvous/trust/key.hpp"
#include "rendezvous/values/decree.hpp"
#include "src/base/os/bounded_thread.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

class KeyRing;

/// Which decision of which run.
struct FencePlace {
  std::string dir;     ///< --fence; every node sees the same one
  std::string run_id;  ///< any text
  std::string mark;    ///< follows from the run's key, so that nobody makes the directory before it; "" = --auth none
  /// Digest of the members that decide: a requeued job has the run id and numbers of its first run.
  std::uint64_t of = 0;
};

/// 16 hexadecimal digits, the same for all members of a run. A requeued job has another key, and so another mark.
[[nodiscard]] std::string fence_mark(std::optional<Key> const& key, std::string const& run_id);

/// DIR/<run id>-<mark>/after-<g>-<of>: characters of the run id that no file name should have are written as %XX.
[[nodiscard]] std::string fence_path(FencePlace const& place, std::uint64_t after);
/// Whether claims can be made in `dir`, and hold: nobody else may be able to put another directory in the place of it
/// or of what is in it, and hard links must work. Makes a file there, whose name has `unique` in it, for others may try
/// at the same time. The error says what is wrong, and what to do. Blocks as the file system does.
[[nodiscard]] Result<void> check_fence(std::string const& dir, std::string const& unique);
/// Claims it for `value`, and blocks meanwhile; says what it holds from then on: `value`, or somebody else's.
[[nodiscard]] Fenced claim_fence(FencePlace const& place, AcceptedDecree const& value);
/// Removes all of the run, which has ended; nothing that this user has not made.
void remove_fences(FencePlace const& place);

/// The same on a thread for each, so that a file system that hangs stops nobody.
class FenceClaims {
 public:
  /// `dir`: --fence; "" = none. `keys`: none with --auth none.
  FenceClaims(boost::asio::io_context& io, std::string dir, std::shared_ptr<KeyRing> keys);
  ~FenceClaims();  ///< Waits 2 s at most for files that are being removed; no handler runs.
  FenceClaims(FenceClaims const&) = delete;
  FenceClaims& operator=(FenceClaims const&) = delete;

  /// `done` once, from the io_context: within 10 s, whatever the file system does. Without a directory at once.
  void claim(std::string const& run_id, std::uint64_t of, AcceptedDecree const& value,
             std::function<void(Fenced)> done);
  void remove(std::string const& run_id);

 private:
  [[nodiscard]] FencePlace place(std::string const& run_id, std::uint64_t of) const;

  boost::asio::io_context& io_;
  std::string dir_;
  std::shared_ptr<KeyRing> keys_;
  std::unique_ptr<os::BoundedThread> removing_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>();  ///< handlers ask whether it has gone
};

}  // namespace cxxrun::rendezvous
