// Secret: a file's or variable's content that every node of a job has, and what is wrapped under it. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/trust/key.hpp"

namespace cxxrun::rendezvous {

using WrapNonce = std::array<unsigned char, 24>;  ///< random, new for every wrap

/// What stands in `text`: at least 32 bytes without the white space around them. Strangers see what is wrapped under it
/// and can try to guess it, so it has to be random, and nothing that a person thought of. Errc::usage: it is too short,
/// or anybody sees that it is not random.
[[nodiscard]] Result<Key> read_secret(std::string_view text);

/// Ports that strangers cannot compute: they follow from the secret and from `ports`, those that everybody can compute
/// for the run. Each is independent of the others, so that who has seen one knows no other. At most kHiddenPorts,
/// distinct, of derived ports (src/base/core/port_sequence.hpp); part of the protocol.
inline constexpr std::size_t kHiddenPorts = 8;
[[nodiscard]] std::vector<std::uint16_t> hidden_ports(Key const& secret, std::vector<std::uint16_t> const& ports);

/// nonce ‖ XChaCha20-Poly1305(secret, words).
[[nodiscard]] std::string wrap(Key const& secret, std::string_view words, WrapNonce const& nonce);
/// Nothing: wrapped under another secret, or altered. The words are secret: wipe them.
[[nodiscard]] std::optional<std::string> unwrap(Key const& secret, std::string_view wrapped);

}  // namespace cxxrun::rendezvous
