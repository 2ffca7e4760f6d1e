// The edge between C++ and C: no exception crosses it. What a call failed with is kept for the thread that made it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cxxrun/c.h"
#include "cxxrun/communicator.hpp"
#include "src/runtime/capi/handles.hpp"

namespace cxxrun::capi {

/// The status of the exception that is being handled; keeps its text and facts. In a catch block.
std::int32_t note_failure() noexcept;

/// `body` returns a status, or throws.
template <class Body>
std::int32_t guarded(Body const& body) noexcept {
  try {
    return body();
  } catch (...) {
    return note_failure();
  }
}

/// Throws what becomes CXXRUN_USAGE; nothing has happened yet. "FUNCTION: WHY".
[[noreturn]] void refuse(char const* function, std::string const& why);
[[noreturn]] void refuse_handle(char const* function, char const* name);
/// Unless the caller gave a place for the result.
void require(void const* pointer, char const* function, char const* name);
/// As much of it as a program knows that was compiled with another version of the header; what it knows more of is 0.
void give(void* out, std::size_t size, void const* facts, std::size_t known) noexcept;
/// An enum of the header, from 0 to `last`.
void require_in(std::int32_t value, std::int32_t last, char const* function, char const* name);

/// In turn: `body` with the Communicator of that handle.
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
