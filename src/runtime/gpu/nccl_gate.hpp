// A flag of the program's in memory that the device reads, too: work that is queued behind a collective looks there
// whether what came before it may be used. Shell.
//
// Threads: any.
#pragma once

namespace cxxrun::gpu {

/// From now on 1 is stored there before NCCL is given up, and with it what its kernels have written. Null: nowhere.
void set_gate(float* flag) noexcept;
/// Before an abort lets the stream go on.
void shut_gate() noexcept;

}  // namespace cxxrun::gpu
