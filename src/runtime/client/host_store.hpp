// Hosting the store in rank 0, for worlds that no launcher serves: plain srun or mpirun, and launchers that leave
// MASTER_PORT to rank 0.
//
// The others connect with Store::connect, which tries until its timeout. Shell.
#pragma once

#include "cxxrun/error.hpp"
#include "cxxrun/store.hpp"

namespace cxxrun::client {

/// From the return on a store listens on the port of `address` (on loopback only, if that is what `address` is). It is
/// there until this process ends, for peers may still read when this one is done; asked for again, it is the same one.
/// A thread of its own, in which signals are blocked, serves it; not in forked children. Callable from any thread.
/// Errors: in_use naming the port, permission, io.
[[nodiscard]] Result<void> host_store(StoreAddress const& address);

}  // namespace cxxrun::client
