// What the double makes of an ncclConfig_t: what NCCL refuses is refused, and the rest is counted for tests to see.
#pragma once

#include <string>

#include <nccl.h>

#include "tests/support/cuda_double/script.hpp"

namespace cxxrun::cuda_double {

/// As parseCommConfig() in NCCL's init.cc: a least that is set must not be more than the most, set or not.
inline bool takes(ncclConfig_t const& config) {
  constexpr int kUnset = NCCL_CONFIG_UNDEF_INT;
  return (config.minCTAs == kUnset || config.minCTAs > 0) && (config.maxCTAs == kUnset || config.maxCTAs > 0) &&
         config.minCTAs <= config.maxCTAs && (config.cgaClusterSize == kUnset || config.cgaClusterSize >= 0);
}

/// "minCTAs 4", once for each communicator.
inline void count_settings(ncclConfig_t const& config) {
  for (auto const& [name, value] :
       {std::pair("minCTAs ", config.minCTAs), std::pair("maxCTAs ", config.maxCTAs),
        std::pair("cgaClusterSize ", config.cgaClusterSize), std::pair("trafficClass ", config.trafficClass)}) {
    if (value != NCCL_CONFIG_UNDEF_INT) {
      count((name + std::to_string(value)).c_str());
    }
  }
}

}  // namespace cxxrun::cuda_double
