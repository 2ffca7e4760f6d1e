// Whose a Communicator is. A forked child has a copy of its memory, and neither its threads nor its device.
#pragma once

#include <string>
#include <unistd.h>

#include "cxxrun/failure.hpp"

namespace cxxrun::host {

/// Throws Failure in any process but `owner`.
inline void require_own(pid_t owner) {
  if (pid_t const self = ::getpid(); self != owner) {
    throw Failure(fail(Errc::usage, "process " + std::to_string(self) + " was forked from process " +
                                        std::to_string(owner) +
                                        ", whose Communicator this is: its place in the world is the parent's; call it "
                                        "there, or fork before Communicator::init()"));
  }
}

}  // namespace cxxrun::host
