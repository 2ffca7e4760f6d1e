// The plugin's facts about drivers and devices, in all states that the double can have.
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include <cuda_runtime_api.h>

#include "tests/support/catch.hpp"
#include "tests/support/cuda_double/script.hpp"
#include "tests/support/cuda_world.hpp"
#include "tests/support/text.hpp"

using namespace cxxrun;        // NOLINT(google-build-using-namespace)
using namespace cxxrun::test;  // NOLINT(google-build-using-namespace)

namespace {

/// "devices count_error driver_found driver_version"
std::string facts(std::string const& script) {
  return alone(script, [](cxxrun_cuda_api const& api) {
    cxxrun_cuda_facts facts{};
    api.facts(&facts);
    bool const explained = (facts.count_error == 0) == (facts.count_text[0] == '\0');
    return std::to_string(facts.devices) + " " + std::to_string(facts.count_error) + " " +
           std::to_string(facts.driver_found) + " " + std::to_string(facts.cuda_driver) +
           (explained ? "" : " in no words");
  });
}

/// The result of open_device(0).
std::string opened(std::string const& script, int ordinal = 0) {
  return alone(script, [ordinal](cxxrun_cuda_api const& api) -> std::string {
    cxxrun_cuda_status status{};
    cxxrun_cuda_device_facts facts{};
    api.open_device(ordinal, &facts, &status);
    return status.code == CXXRUN_CUDA_OK
               ? std::string(facts.name) + " sm " + std::to_string(facts.sm) + " at " + facts.bus_id + " " + facts.uuid
               : status.text;
  });
}

}  // namespace

TEST_CASE("cuda plugin: the states of a driver can be told apart", "[process]") {
  CHECK(facts("") == "4 0 1 13000");
  CHECK(facts("devices=1") == "1 0 1 13000");
  CHECK(facts("devices=0") == "0 100 1 13000");
  CHECK(facts("driver=missing") == "0 35 0 0");
  CHECK(facts("driver=stub") == "0 34 1 13000");
  CHECK(facts("driver=old") == "0 35 1 11040");
  CHECK(facts("driver=802") == "0 802 1 13000");
  CHECK(facts("driver=46") == "0 46 1 13000");
}

TEST_CASE("cuda plugin: the version of the library that was loaded is told", "[process]") {
  CHECK(alone("nccl=21903", [](cxxrun_cuda_api const& api) {
          cxxrun_cuda_facts facts{};
          api.facts(&facts);
          return std::to_string(facts.nccl);
        }) == "21903");
}

TEST_CASE("cuda plugin: a device that works is described", "[process]") {
  auto const text = opened("");
  CHECK(has(text, "Double of a GPU sm 90 at 0000:00:00.0 GPU-"));
  CHECK(text.size() == std::strlen("Double of a GPU sm 90 at 0000:00:00.0 GPU-") + 36 - 0);
}

TEST_CASE("cuda plugin: devices have different uuids unless they are one", "[process]") {
  auto const last = [](std::string const& text) { return text.substr(text.rfind(' ')); };
  CHECK(last(opened("", 0)) != last(opened("", 1)));
  CHECK(last(opened("uuid=same", 0)) == last(opened("uuid=same", 1)));
}

TEST_CASE("cuda plugin: a device that fails its first kernel is found in CUDA's words", "[process]") {
  CHECK(has(opened("kernel=fails"), "the first kernel: unspecified launch failure (cudaErrorLaunchFailure)"));
  CHECK(has(opened("kernel=none"), "the first kernel: no kernel image is available"));
  CHECK(has(opened("driver=802"), "cudaSetDevice: system not yet initialized (cudaErrorSystemNotReady)"));
  CHECK(has(opened("", 4), "cudaSetDevice: invalid device ordinal"));
}

TEST_CASE("cuda plugin: another version of the table is refused", "[process]") {
  CHECK(alone("", [](cxxrun_cuda_api const& api) { return std::to_string(api.abi == CXXRUN_CUDA_ABI); }) == "1");
  CHECK_THROWS_WITH(load_plugin("/nowhere/libcxxrun_cuda.so"), Catch::Matchers::Contains("/nowhere"));
}

TEST_CASE("cuda plugin: no communicator without a device, and none of NCCL's before 2.19", "[process]") {
  auto const begun = [](std::string const& script, bool open) {
    return alone(script, [open](cxxrun_cuda_api const& api) -> std::string {
      cxxrun_cuda_status status{};
      cxxrun_cuda_device_facts facts{};
      if (open && api.open_device(0, &facts, &status) != CXXRUN_CUDA_OK) {
        return status.text;
      }
      cxxrun_cuda_comm* comm = nullptr;
      auto const id = fresh_id();
      auto const code = api.comm_begin(id.data(), 0, 2, &kNoSettings, &comm, &status);
      return std::to_string(code) + " " + status.text + (comm == nullptr ? "" : " and a communicator");
    });
  };
  CHECK(begun("", false) == "3 no device was opened before the communicator");
  CHECK(begun("nccl=21805", true) == "4 this is NCCL 2.18.5; the oldest that is used is 2.19");
}

TEST_CASE("cuda plugin: memory that is not there is an error in CUDA's words", "[process]") {
  CHECK(has(on_devices(1, "memory=1000000",
                       [](PluginComm& comm, int) {
                         comm.allocate(2'000'000);
                         return std::string();
                       }),
            "cudaMalloc: out of memory"));
  CHECK(has(on_devices(2, "memory=1000000",
                       [](PluginComm& comm, int) {
                         comm.allocate(2'000'000);
                         return std::string();
                       }),
            "ncclMemAlloc: unhandled cuda error"));
}

TEST_CASE("cuda plugin: an error that was told is not left for the program's next check", "[process]") {
  CHECK(on_devices(1, "memory=1000000", [](PluginComm& comm, int) -> std::string {
          try {
            comm.allocate(2'000'000);
            return "there was memory";
          } catch (PluginError const&) {
            return cudaGetErrorName(cudaGetLastError());
          }
        }) == "cudaSuccess\n");
}

TEST_CASE("cuda plugin: threads that begin with device 0 make no context there for a rank on another device",
          "[process]") {
  auto const said = on_devices(2, "", [](PluginComm& comm, int) -> std::string {
    auto* const data = comm.allocate(64);
    bool right = false;
    std::thread([&] {
      cxxrun_cuda_status status{};
      right = comm.api().is_device_memory(data, &status) == 1 && comm.api().is_device_memory(&right, &status) == 0;
    }).join();
    std::thread([&] {
      cxxrun_cuda_status status{};
      right = right && comm.api().is_captured(nullptr, &status) == 0;
    }).join();
    std::thread([&] {
      comm.run({comm::Kind::barrier});
      comm.synchronize();
    }).join();
    return std::to_string(cxxrun_cuda_double_calls("context")) + (right ? " context" : " context, and wrong");
  });
  CHECK(said == "1 context\n1 context\n");
}
