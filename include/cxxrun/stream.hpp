// Stream: where a device's work is queued, for calls on device memory.
//
// A CUDA stream as an opaque handle, so that no CUDA header is needed: Stream{my_stream} with a cudaStream_t. Without a
// device it means nothing and is ignored.
#pragma once

#include "cxxrun/version.hpp"

namespace cxxrun {

/// A plain value; owns nothing. The default is the device's legacy default stream.
struct Stream {
  void* handle = nullptr;
  bool operator==(Stream const&) const = default;
};

}  // namespace cxxrun
