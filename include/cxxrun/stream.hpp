// Stream: the device stream that a call on device memory is ordered with.
//
// An opaque handle of a CUDA stream, so that no CUDA header is needed: Stream{my_stream} with a cudaStream_t. Ignored
// without a device.
#pragma once

#include "cxxrun/version.hpp"

namespace cxxrun {

/// A plain value; owns nothing. The default is the device's legacy default stream.
struct Stream {
  void* handle = nullptr;
  bool operator==(Stream const&) const = default;
};

}  // namespace cxxrun
