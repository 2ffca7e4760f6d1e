// SecretFile: by what way the key of a job gets to its other nodes: --auth, the environment, and files that only this
// user can read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/options/options.hpp"
#include "rendezvous/trust/transports.hpp"

namespace cxxrun::launcher {

/// What CXXRUN_SECRET or CXXRUN_SECRET_FILE holds, if one of them is set; else an Error that names it: usage, it is too
/// short, or others may read it.
using GivenSecret = std::optional<Result<rendezvous::Key>>;

/// Takes both variables out of this process's environment, which workers inherit, and reads the file at once.
[[nodiscard]] GivenSecret take_secret();

/// `auto`: the secret that was given, else munge and ~/.cxxrun/key, whichever works; the others, one of them alone.
/// `home`: "" when there is none.
[[nodiscard]] Result<rendezvous::KeyTransports> key_transports(Auth auth, GivenSecret const& given,
                                                               std::string const& home);

/// Ports to meet at that only who has the secret can compute, besides `ports`. None where no secret is used, where one
/// is not to be had within kDirectoryPatience (discovery_file.hpp), or where one port is given, which is not derived.
[[nodiscard]] std::vector<std::uint16_t> hidden_ports_of(rendezvous::KeyTransports const& transports,
                                                         std::vector<std::uint16_t> const& ports);

/// The secret in a file. `create`: made when there is none, for this user alone, whole or not at all.
[[nodiscard]] Result<rendezvous::Key> secret_in(std::string const& path, bool create);

}  // namespace cxxrun::launcher
