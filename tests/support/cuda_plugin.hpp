// The plugin for GPUs through its table, with exceptions for errors: for tests, and for what measures on a GPU.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <climits>

#include "src/base/core/call.hpp"
#include "src/runtime/cuda/plugin_api.h"

namespace cxxrun::test {

class PluginError : public std::runtime_error {
 public:
  explicit PluginError(cxxrun_cuda_status const& status) : std::runtime_error(status.text), status_(status) {}
  [[nodiscard]] std::int32_t code() const { return status_.code; }
  [[nodiscard]] std::int32_t detail() const { return status_.detail; }

 private:
  cxxrun_cuda_status status_;
};

/// The table of the plugin at `path`, loaded as libcxxrun loads it. Throws what dlopen says.
cxxrun_cuda_api const& load_plugin(char const* path);

inline constexpr cxxrun_cuda_settings kNoSettings{INT_MIN, INT_MIN, INT_MIN, INT_MIN, nullptr};

using Id = std::vector<std::uint8_t>;
Id make_id(cxxrun_cuda_api const& api);

/// An open communicator; whatever goes wrong is thrown as PluginError.
class PluginComm {
 public:
  /// Opens the device first. Not ready within `limit`: std::runtime_error "in progress".
  PluginComm(cxxrun_cuda_api const& api, int device, Id const& id, int rank, int world,
             std::chrono::milliseconds limit = std::chrono::minutes(1));
  PluginComm(PluginComm const&) = delete;
  PluginComm& operator=(PluginComm const&) = delete;
  ~PluginComm();

  [[nodiscard]] cxxrun_cuda_api const& api() const { return api_; }
  [[nodiscard]] cxxrun_cuda_comm* raw() const { return comm_; }

  void* allocate(std::uint64_t bytes);
  void run(comm::Call const& call);
  /// A mark, and the wait until it is reached or NCCL reports an error.
  void synchronize();
  void finalize();

  template <class T>
  T* upload(std::vector<T> const& values) {
    auto* const memory = static_cast<T*>(allocate(values.size() * sizeof(T)));
    copy(memory, values.data(), values.size() * sizeof(T));
    return memory;
  }
  template <class T>
  std::vector<T> download(T const* memory, std::size_t count) {
    std::vector<T> values(count);
    copy(values.data(), memory, count * sizeof(T));
    synchronize();
    return values;
  }
  void copy(void* to, void const* from, std::uint64_t bytes);

  /// Calls it until it is not in progress; throws when it failed or `limit` is over.
  void until_done(std::function<std::int32_t(cxxrun_cuda_status*)> const& call,
                  std::chrono::milliseconds limit = std::chrono::minutes(1)) const;
  /// `code` of a call that was made.
  static void check(std::int32_t code, cxxrun_cuda_status const& status);

 private:
  cxxrun_cuda_api const& api_;
  cxxrun_cuda_comm* comm_ = nullptr;
};

/// What the table takes.
cxxrun_cuda_call plugin_call(comm::Call const& call);

}  // namespace cxxrun::test
