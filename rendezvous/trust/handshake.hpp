// Handshake: how both ends of a connection come to the same two keys, and what a stranger gets to see of it. Pure.
//
//     call    →  magic, version, 32 random bytes, the id of the key that the caller has
//     answer  ←  magic, version, 32 random bytes, the key's id, the key wrapped in each way that the run offers
//     then every frame is sealed (seal.hpp), in each direction under a key of its own
//
// The keys are derived from the run's key and from every byte of both frames: whoever changes one of them, or replays
// one, is left with frames that do not open. The first that opens is the proof that the other end knows the run's key.
// docs/design/trust.md.
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

using Fresh = std::array<unsigned char, 32>;  ///< random, new for every connection

/// How the key gets to who does not have it.
enum class WrapKind : std::uint8_t {
  munge = 1,   ///< a credential that only the own uid can decode
  secret = 2,  ///< sealed under a secret that every node has
};

struct Wrap {
  WrapKind kind = WrapKind::secret;
  std::string bytes;
  bool operator==(Wrap const&) const = default;
};

struct Call {
  Fresh fresh{};
  KeyId knows{};  ///< zeros: none
  bool operator==(Call const&) const = default;
};

struct KeyOffer {
  Fresh fresh{};
  KeyId key{};
  std::vector<Wrap> wraps;  ///< none where callers have the key already
  bool operator==(KeyOffer const&) const = default;
};

/// The wraps of one answer are at most so many, and together so long.
inline constexpr std::size_t kMostWraps = 4;
inline constexpr std::size_t kMostWrapped = 4096;

[[nodiscard]] std::string write_call(Call const& call);
[[nodiscard]] std::string write_answer(KeyOffer const& answer);
/// Errc::protocol: no handshake of cxxrun's, or of another version (which is named).
[[nodiscard]] Result<Call> read_call(std::string_view bytes);
/// The same for an answer. Wraps of a kind that is not known here are left out.
[[nodiscard]] Result<KeyOffer> read_answer(std::string_view bytes);

/// Of one connection.
struct ChannelKeys {
  Key caller;  ///< seals what the caller says
  Key called;  ///< seals what the other end says
};

[[nodiscard]] ChannelKeys channel_keys(Key const& key, std::string_view call, std::string_view answer);

}  // namespace cxxrun::rendezvous
