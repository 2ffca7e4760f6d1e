// Sockets as rails want them. Shell.
#pragma once

#include <chrono>

#include "cxxrun/error.hpp"
#include "cxxrun/store.hpp"
#include "src/os/fd.hpp"

namespace cxxrun::host {

/// Starts to connect to a literal address; poll(2) says when it is done.
[[nodiscard]] Result<os::UniqueFd> begin_connect(StoreAddress const& address);

/// No delays, and an error when the other host has been silent for `silence`.
void prepare(int fd, std::chrono::milliseconds silence);

}  // namespace cxxrun::host
