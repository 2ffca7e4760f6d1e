// SoloBackend: the collectives of a world of one, where every result is this rank's own buffer. Shell.
#pragma once

#include <memory>

#include "src/host/backend.hpp"

namespace cxxrun::client {

[[nodiscard]] std::unique_ptr<host::Backend> make_solo_backend();

}  // namespace cxxrun::client
