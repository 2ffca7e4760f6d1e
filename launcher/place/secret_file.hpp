// How the key of a job reaches its other nodes: by MUNGE or a secret, as --auth, the environment and the user's files
// say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/options.hpp"
#include "rendezvous/trust/grant.hpp"

namespace cxxrun::launcher {

/// The secret of CXXRUN_SECRET or CXXRUN_SECRET_FILE; empty if neither is set. Errc::usage, naming the variable, if the
/// secret is too short or others may read the file.
using GivenSecret = std::optional<Result<rendezvous::Key>>;

/// Reads the secret and removes both variables from the environment of this process, which workers inherit.
[[nodiscard]] GivenSecret take_secret();

/// --auth auto: the given secret, else munge or ~/.cxxrun/key, whichever works; other values: that one alone. `home`
/// may be
/// "".
[[nodiscard]] Result<rendezvous::KeyTransports> key_transports(Auth auth, GivenSecret const& given,
                                                               std::string const& home);

/// Further ports to meet at, which only a process that has the secret can compute. None if no secret is used, if it
/// cannot be read within kDirectoryPatience (discovery_file.hpp), or if `ports` is a single port, which the user has
/// given.
[[nodiscard]] std::vector<std::uint16_t> hidden_ports_of(rendezvous::KeyTransports const& transports,
                                                         std::vector<std::uint16_t> const& ports);

/// Reads the secret in a file. `create`: first creates a missing file, atomically and for this user alone.
[[nodiscard]] Result<rendezvous::Key> secret_in(std::string const& path, bool create);

}  // namespace cxxrun::launcher
