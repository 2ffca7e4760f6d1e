// Handles: what cxxrun_comm* and cxxrun_work* of C stand for. They are numbers in tables, never addresses, so that a
// wrong one is refused and nothing is read through it.
//
// A forked child has empty tables of its own: those of its parent may be locked by a thread that the child lacks, and
// what is in them is the parent's.
//
// Threads: any. The tables stay until the process ends, so that exit() in one thread takes nothing from another.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sys/types.h>

#include "cxxrun/c.h"
#include "cxxrun/communicator.hpp"

namespace cxxrun::capi {

/// A Communicator for several threads: `turn` is held by the call that is under way.
struct Comm {
  std::mutex turn{};
  std::optional<Communicator> comm{};  ///< nothing: it was released while this call waited for its turn
};

class Tables {
 public:
  static Tables& own();

  cxxrun_comm* add(Communicator comm);
  cxxrun_work* add(Work work);
  /// Null: no such handle.
  [[nodiscard]] std::shared_ptr<Comm> find(cxxrun_comm const* handle);
  [[nodiscard]] std::shared_ptr<Work> find(cxxrun_work const* handle);
  /// The same, and the handle is none any more.
  std::shared_ptr<Comm> take(cxxrun_comm const* handle);
  std::shared_ptr<Work> take(cxxrun_work const* handle);

 private:
  explicit Tables(pid_t pid) : pid_(pid) {}

  template <class T>
  using Table = std::map<std::uintptr_t, std::shared_ptr<T>>;

  pid_t pid_;
  std::mutex mutex_;
  std::uintptr_t last_ = 0;  // of both: no number is used twice
  Table<Comm> comms_;
  Table<Work> works_;
};

}  // namespace cxxrun::capi
