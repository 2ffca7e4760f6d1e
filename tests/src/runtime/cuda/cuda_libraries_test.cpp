// The plugin on the real CUDA runtime and NCCL, as far as that works without a GPU. tests/gpu/lease covers the rest.
#include <array>
#include <cstring>
#include <string>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "tests/support/catch.hpp"
#include "tests/support/cuda_plugin.hpp"

using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

cxxrun_cuda_facts facts() {
  cxxrun_cuda_facts all{};
  load_plugin(CXXRUN_CUDA_PLUGIN).facts(&all);
  return all;
}

}  // namespace

TEST_CASE("cuda libraries: versions are told without a driver", "[process]") {
  auto const all = facts();
  CHECK(all.cuda_runtime == CUDART_VERSION);
  CHECK(all.nccl >= 21900);
  CHECK(all.nccl_header == NCCL_VERSION_CODE);
  int count = 0;
  CHECK(static_cast<std::int32_t>(cudaGetDeviceCount(&count)) == all.count_error);
  CHECK((all.count_error == 0) == (all.devices > 0));
}

TEST_CASE("cuda libraries: NCCL makes a unique id without a GPU, another one each time", "[process]") {
  auto const& api = load_plugin(CXXRUN_CUDA_PLUGIN);
  auto const first = make_id(api);
  CHECK(first != make_id(api));
  CHECK(first != Id(CXXRUN_CUDA_ID_BYTES));
}

TEST_CASE("cuda libraries: without a GPU a device is refused in CUDA's words, and a communicator too", "[process]") {
  auto const all = facts();
  if (all.devices > 0) {
    WARN("not tested: there is a GPU here");
    return;
  }
  auto const& api = load_plugin(CXXRUN_CUDA_PLUGIN);
  cxxrun_cuda_status status{};
  cxxrun_cuda_device_facts device{};
  CHECK(api.open_device(0, &device, &status) == CXXRUN_CUDA_CUDA);
  CHECK(status.detail == all.count_error);
  CHECK(std::string(status.text) == "cudaSetDevice: " + std::string(all.count_text));
  cxxrun_cuda_comm* comm = nullptr;
  auto const id = make_id(api);
  CHECK(api.comm_begin(id.data(), 0, 2, &kNoSettings, &comm, &status) == CXXRUN_CUDA_NCCL);
  CHECK(comm == nullptr);
  int here = 0;
  CHECK(api.is_device_memory(&here, &status) == -1);  // CUDA cannot tell
}

TEST_CASE("cuda libraries: what NCCL says without a driver is what a communicator's beginning would hand on",
          "[process]") {
  if (facts().devices > 0) {
    WARN("not tested: there is a GPU here");
    return;
  }
  ncclUniqueId id{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclUnhandledCudaError);
  CHECK(comm == nullptr);
  CHECK(std::strlen(ncclGetLastError(nullptr)) > 0);
}
