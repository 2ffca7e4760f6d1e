// Handshake: the two frames by which both ends of a connection derive the same two keys. Pure.
//
//     call    →  magic, version, nonce, id of the key that the caller has
//     answer  ←  magic, version, nonce, id of the key, the key wrapped in each way that the run offers
//     then every frame is sealed (secure_channel.hpp), in each direction under its own key
//
// The keys are derived from the run's key and from every byte of both frames, so after a changed or replayed frame
// nothing opens. The first sealed frame that opens proves that the other end knows the run's key. docs/design/trust.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cxxrun/error.hpp"
#include "rendezvous/trust/key.hpp"

namespace cxxrun::rendezvous {

inline constexpr std::uint8_t kHandshakeVersion = 2;

using Nonce = std::array<unsigned char, 32>;  ///< random, new for every connection

/// How the key is wrapped for a caller that does not have it.
enum class WrapKind : std::uint8_t {
  munge = 1,   ///< in a credential that only the same uid can decode
  secret = 2,  ///< sealed under a secret that every node has
};

struct Wrap {
  WrapKind kind = WrapKind::secret;
  std::string bytes;
  bool operator==(Wrap const&) const = default;
};

struct Call {
  Nonce nonce{};
  KeyId knows{};  ///< zeros: none
  bool operator==(Call const&) const = default;
};

struct KeyOffer {
  Nonce nonce{};
  KeyId key{};
  std::vector<Wrap> wraps;  ///< none if the caller has the key already
  bool operator==(KeyOffer const&) const = default;
};

/// Limits on the wraps of one answer: their number, and their bytes in all.
inline constexpr std::size_t kMostWraps = 4;
inline constexpr std::size_t kMostWrapped = 4096;

[[nodiscard]] std::string write_call(Call const& call);
[[nodiscard]] std::string write_answer(KeyOffer const& answer);
/// Errc::protocol: not a cxxrun handshake, or one of another version, which the error names.
[[nodiscard]] Result<Call> read_call(std::string_view bytes);
/// The same for an answer. Wraps of an unknown kind are left out.
[[nodiscard]] Result<KeyOffer> read_answer(std::string_view bytes);

/// The keys of one connection, one per direction.
struct ChannelKeys {
  Key caller;  ///< seals frames of the caller
  Key called;  ///< seals frames of the other end
};

[[nodiscard]] ChannelKeys channel_keys(Key const& key, std::string_view call, std::string_view answer);

}  // namespace cxxrun::rendezvous
