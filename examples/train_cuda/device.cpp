#include "train_cuda/device.hpp"

#include <string>

#include "cxxrun/failure.hpp"

namespace train {

void check(cudaError_t error, char const* what) {
  if (error != cudaSuccess) {
    throw cxxrun::Failure({cxxrun::Errc::io, std::string(what) + ": " + cudaGetErrorString(error) + " (" +
                                                 cudaGetErrorName(error) + ")"});
  }
}

// It waits for no other stream, nor do others for it, unless they are told to.
DeviceStream::DeviceStream() {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

DeviceStream::~DeviceStream() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

}  // namespace train
