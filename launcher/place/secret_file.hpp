// SecretFile: by what way the key of a job gets to its other nodes: --auth, the environment, and files that only this
// user can read.
#pragma once

#include <string>

#include "launcher/facts/environment.hpp"
#include "launcher/options/options.hpp"
#include "rendezvous/trust/transports.hpp"

namespace cxxrun::launcher {

/// `auto`: CXXRUN_SECRET or CXXRUN_SECRET_FILE when one is set, else munge and ~/.cxxrun/key, whichever works; the
/// others, one of them alone. Takes both variables out of `environment`, which workers inherit. Reads the file at once.
/// Errc::usage: what was given is too short, or others may read it.
[[nodiscard]] Result<rendezvous::KeyTransports> key_transports(Auth auth, Environment& environment);

/// The secret in a file. `create`: made when there is none, for this user alone, whole or not at all.
[[nodiscard]] Result<rendezvous::Key> secret_in(std::string const& path, bool create);

}  // namespace cxxrun::launcher
