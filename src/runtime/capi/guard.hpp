// The boundary between C++ and C: handles stand for objects, and no exception crosses it. The failure of a call is kept
// for the thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>

#include "cxxrun/c.h"
#include "cxxrun/communicator.hpp"

namespace cxxrun::capi {

// ---- handles

/// A Communicator used by several threads; the running call holds `turn`.
struct Comm {
  std::mutex turn{};
  std::optional<Communicator> comm{};  ///< empty: released while this call waited for its turn
};

/// The meaning of cxxrun_comm* and cxxrun_work* in C. A handle is a number in a table, never an address, so an
/// invalid one is refused and nothing is read through it.
///
/// A forked child gets empty tables of its own: the parent's may be locked by a thread that the child lacks, and their
/// contents belong to the parent.
///
/// Threads: any. The tables live until the process ends, so exit() in one thread does not take them from another.
class Tables {
 public:
  static Tables& own();

  cxxrun_comm* add(Communicator comm);
  cxxrun_work* add(Work work);
  /// Null if there is no such handle.
  [[nodiscard]] std::shared_ptr<Comm> find(cxxrun_comm const* handle) { return find_in(comms_, handle, false); }
  [[nodiscard]] std::shared_ptr<Work> find(cxxrun_work const* handle) { return find_in(works_, handle, false); }
  /// The same, and removes the handle.
  std::shared_ptr<Comm> take(cxxrun_comm const* handle) { return find_in(comms_, handle, true); }
  std::shared_ptr<Work> take(cxxrun_work const* handle) { return find_in(works_, handle, true); }

 private:
  explicit Tables(pid_t pid) : pid_(pid) {}

  template <class T>
  using Table = std::map<std::uintptr_t, std::shared_ptr<T>>;

  template <class T>
  std::shared_ptr<T> find_in(Table<T>& table, void const* handle, bool takes) {
    std::lock_guard const lock(mutex_);
    auto const found = table.find(reinterpret_cast<std::uintptr_t>(handle));
    auto entry = found == table.end() ? nullptr : found->second;
    if (entry != nullptr && takes) {
      table.erase(found);
    }
    return entry;
  }

  pid_t pid_;
  std::mutex mutex_;
  std::uintptr_t last_ = 0;  // shared by both tables, so that no number is used twice
  Table<Comm> comms_;
  Table<Work> works_;
};

// ---- failures

/// Records the text and facts of the exception being handled and returns its status. Call it in a catch block.
std::int32_t note_failure() noexcept;

/// Runs `body`, which returns a status or throws.
template <class Body>
std::int32_t guarded(Body const& body) noexcept {
  try {
    return body();
  } catch (...) {
    return note_failure();
  }
}

/// Throws a Failure that becomes CXXRUN_USAGE, "FUNCTION: WHY". Call it before anything has happened.
[[noreturn]] void refuse(char const* function, std::string const& why);
[[noreturn]] void refuse_handle(char const* function, char const* name);
/// Throws if `pointer` is null: the caller gave no place for the result.
void require(void const* pointer, char const* function, char const* name);
/// Copies the part of `facts` that the program's version of the struct has; fields unknown to this library become 0.
void give(void* out, std::size_t size, void const* facts, std::size_t known) noexcept;
/// Throws unless `value` is from 0 to `last`: an enum of the header.
void require_in(std::int32_t value, std::int32_t last, char const* function, char const* name);

/// Runs `body` with the Communicator of that handle, one call at a time.
template <class Body>
std::int32_t in_turn(char const* function, cxxrun_comm* handle, Body const& body) noexcept {
  return guarded([&] {
    auto const entry = Tables::own().find(handle);
    if (entry != nullptr) {
      std::lock_guard const lock(entry->turn);
      if (entry->comm) {
        return body(*entry->comm);
      }
    }
    refuse_handle(function, "comm");
  });
}

}  // namespace cxxrun::capi
