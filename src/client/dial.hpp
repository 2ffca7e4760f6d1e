// How a worker reaches its store: blocking TCP connections with deadlines, on plain sockets.
#pragma once

#include "cxxrun/error.hpp"
#include "cxxrun/store.hpp"
#include "src/core/time.hpp"
#include "src/os/fd.hpp"

namespace cxxrun {

/// Waits until poll(2) reports one of `events` (or an error, which the next call on the socket will tell);
/// false when the deadline came first, or an Interruption of this thread.
bool socket_ready(int fd, short events, TimePoint deadline);

/// One attempt at every address of the host, in the resolver's order. The socket is non-blocking, close-on-exec,
/// without Nagle's delay. Errors: not_found (the name), closed (the last address' reason), timeout, io.
Result<os::UniqueFd> dial(StoreAddress const& address, TimePoint deadline);

}  // namespace cxxrun
