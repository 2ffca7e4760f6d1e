// Fault points: places where a test makes this process die, stop or exit. Shell.
//
// CXXRUN_FAULT="rank=1,call=3,at=reduce,do=kill" (do: kill, stop, exit) acts once: in that rank, in the call with that
// number (from 1), at that point. If it is not set, a point costs one load.
#pragma once

#include <cstdint>

namespace cxxrun::host {

/// The points of one call, in order.
enum class FaultPoint : std::uint8_t { enter, copy_in, reduce, rail, rail_middle, meet, copy_out, leave };

/// `set`: the value of CXXRUN_FAULT, or null. Throws Failure (environment) if it is malformed.
void arm_faults(int rank, char const* set);
/// Counts the call that follows.
void count_call();
void fault_point(FaultPoint point);

}  // namespace cxxrun::host
