// Ranks with a device of the double each.
#pragma once

#include <cstdlib>
#include <functional>
#include <random>
#include <string>

#include "tests/support/cuda_plugin.hpp"
#include "tests/support/ranks.hpp"

namespace cxxrun::test {

/// The double takes any; the parent of the ranks must not begin with CUDA.
inline Id fresh_id() {
  std::random_device device;
  Id id(CXXRUN_CUDA_ID_BYTES);
  for (auto& byte : id) {
    byte = static_cast<std::uint8_t>(device());
  }
  return id;
}

/// One process, in which the double does what `script` says; what `body` returns, or what went wrong.
inline std::string alone(std::string const& script, std::function<std::string(cxxrun_cuda_api const&)> const& body) {
  auto const ends = run_ranks(1, [&](int) {
    ::setenv("CXXRUN_CUDA_DOUBLE", script.c_str(), 1);
    return body(load_plugin(CXXRUN_CUDA_PLUGIN));
  });
  return ends[0].said + (ends[0].returned() ? "" : " (status " + std::to_string(ends[0].status) + ")");
}

/// What `body` returned on each rank, in lines; nothing for ranks that returned nothing.
inline std::string on_devices(int world, std::string const& script,
                              std::function<std::string(PluginComm&, int rank)> const& body) {
  auto const id = fresh_id();
  auto const ends = run_ranks(world, [&](int rank) {
    ::setenv("CXXRUN_CUDA_DOUBLE", script.c_str(), 1);
    PluginComm comm(load_plugin(CXXRUN_CUDA_PLUGIN), rank, id, rank, world);
    return body(comm, rank);
  });
  std::string all;
  for (auto const& end : ends) {
    all += end.said + (end.returned() ? "" : " (status " + std::to_string(end.status) + ")");
    all += end.said.empty() && end.returned() ? "" : "\n";
  }
  return all;
}

}  // namespace cxxrun::test
