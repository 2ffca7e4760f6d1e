// Secret: a text that every node of a job has (a file, a variable), and wrapping under it. Pure.
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

/// The secret in `text`: at least 32 bytes without surrounding white space. Anybody who calls gets texts wrapped under
/// it and can try to guess it, so it must be random. Errc::usage: it is too short, or evidently not random.
[[nodiscard]] Result<Key> read_secret(std::string_view text);

/// Ports that only holders of the secret can compute, from it and from `ports`, which everybody can compute for the
/// run. They are independent: one of them reveals no other. At most kHiddenPorts, distinct, from the range of derived
/// ports (src/base/core/ports.hpp). Part of the protocol.
inline constexpr std::size_t kHiddenPorts = 8;
[[nodiscard]] std::vector<std::uint16_t> hidden_ports(Key const& secret, std::vector<std::uint16_t> const& ports);

/// nonce ‖ XChaCha20-Poly1305(secret, words).
[[nodiscard]] std::string wrap(Key const& secret, std::string_view words, WrapNonce const& nonce);
/// Nothing: wrapped under another secret, or altered. Wipe the words after use.
[[nodiscard]] std::optional<std::string> unwrap(Key const& secret, std::string_view wrapped);

}  // namespace cxxrun::rendezvous
