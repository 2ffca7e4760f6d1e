#include "tests/support/cuda_plugin.hpp"

#include <algorithm>
#include <chrono>
#include <dlfcn.h>
#include <thread>

namespace cxxrun::test {

cxxrun_cuda_api const& load_plugin(char const* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw std::runtime_error(::dlerror());
  }
  auto const function = reinterpret_cast<cxxrun_cuda_api_function>(::dlsym(library, CXXRUN_CUDA_SYMBOL));
  auto const* const api = function == nullptr ? nullptr : function(CXXRUN_CUDA_ABI);
  if (api == nullptr) {
    throw std::runtime_error(std::string(path) + " is no plugin of this version");
  }
  return *api;
}

Id make_id(cxxrun_cuda_api const& api) {
  Id id(CXXRUN_CUDA_ID_BYTES);
  cxxrun_cuda_status status{};
  if (api.unique_id(id.data(), &status) != CXXRUN_CUDA_OK) {
    throw PluginError(status);
  }
  return id;
}

cxxrun_cuda_call plugin_call(comm::Call const& call) {
  return {static_cast<std::uint8_t>(call.kind),
          static_cast<std::uint8_t>(call.type),
          static_cast<std::uint8_t>(call.op),
          static_cast<std::uint8_t>(call.wire),
          call.root,
          call.count,
          call.scale,
          call.in,
          call.out};
}

PluginComm::PluginComm(cxxrun_cuda_api const& api, int device, Id const& id, int rank, int world,
                       std::chrono::milliseconds limit)
    : api_(api) {
  cxxrun_cuda_status status{};
  cxxrun_cuda_device_facts facts{};
  if (api.open_device(device, &facts, &status) != CXXRUN_CUDA_OK) {
    throw PluginError(status);
  }
  try {
    if (api.comm_begin(id.data(), rank, world, &kNoSettings, &comm_, &status) != CXXRUN_CUDA_OK) {
      throw PluginError(status);
    }
    until_done([&](cxxrun_cuda_status* now) { return api_.poll(comm_, now); }, limit);
  } catch (...) {
    api_.comm_free(comm_);
    throw;
  }
}

PluginComm::~PluginComm() {
  api_.comm_free(comm_);
}

void PluginComm::until_done(std::function<std::int32_t(cxxrun_cuda_status*)> const& call,
                            std::chrono::milliseconds limit) const {
  auto const end = std::chrono::steady_clock::now() + limit;
  cxxrun_cuda_status status{};
  while (call(&status) == CXXRUN_CUDA_IN_PROGRESS) {
    if (std::chrono::steady_clock::now() > end) {
      throw std::runtime_error("in progress");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  if (status.code != CXXRUN_CUDA_OK) {
    throw PluginError(status);
  }
}

void PluginComm::check(std::int32_t code, cxxrun_cuda_status const& status) {
  if (code != CXXRUN_CUDA_OK) {
    throw PluginError(status);
  }
}

void* PluginComm::allocate(std::uint64_t bytes) {
  cxxrun_cuda_status status{};
  void* memory = nullptr;
  check(api_.allocate(comm_, bytes, &memory, &status), status);
  return memory;
}

void PluginComm::run(comm::Call const& call) {
  cxxrun_cuda_status status{};
  auto const plain = plugin_call(call);
  check(api_.enqueue(comm_, &plain, &status), status);
}

void PluginComm::copy(void* to, void const* from, std::uint64_t bytes) {
  cxxrun_cuda_status status{};
  check(api_.copy(comm_, to, from, bytes, &status), status);
}

void PluginComm::synchronize() {
  cxxrun_cuda_status status{};
  std::uint64_t point = 0;
  check(api_.mark(comm_, &point, &status), status);
  until_done([&](cxxrun_cuda_status* now) {
    auto const code = api_.reached(comm_, point, now);
    return code == CXXRUN_CUDA_IN_PROGRESS && api_.poll(comm_, now) == CXXRUN_CUDA_OK ? code : now->code;
  });
}

void PluginComm::finalize() {
  until_done([this](cxxrun_cuda_status* now) { return api_.finalize(comm_, now); });
}

}  // namespace cxxrun::test
