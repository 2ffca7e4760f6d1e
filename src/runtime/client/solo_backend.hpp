// SoloBackend: the collectives of a world of one, where every result equals this rank's own buffer. Shell.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/runtime/cpu/common/backend.hpp"

namespace cxxrun::client {

/// `holder`: "rank 0 on node1", for messages.
[[nodiscard]] std::unique_ptr<host::Backend> make_solo_backend(std::string holder, std::uint64_t generation = 0);

}  // namespace cxxrun::client
