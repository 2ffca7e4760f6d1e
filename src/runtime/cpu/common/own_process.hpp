// The process that owns a Communicator. A forked child has a copy of its memory, but neither its threads nor its
// device.
#pragma once

#include <string>
#include <unistd.h>

#include "cxxrun/failure.hpp"

namespace cxxrun::host {

/// Throws Failure in any other process than `owner`.
inline void require_own(pid_t owner) {
  if (pid_t const self = ::getpid(); self != owner) {
    throw Failure(fail(Errc::usage, "process " + std::to_string(self) + " was forked from process " +
                                        std::to_string(owner) +
                                        ", which owns this Communicator: use it there, or fork before "
                                        "Communicator::init()"));
  }
}

}  // namespace cxxrun::host
