// Seal: the frames of one direction of a connection, encrypted and numbered. Pure.
//
// ChaCha20-Poly1305 (RFC 8439) with a key for this direction of this connection alone; the nonce is the number of the
// frame, so one that is left out, repeated, put elsewhere, altered or sent back does not open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/trust/key.hpp"

namespace cxxrun::rendezvous {

/// So many bytes is a sealed frame longer than what it holds.
inline constexpr std::size_t kSealBytes = 16;

class Sealer {
 public:
  explicit Sealer(Key const& key) : key_(key) {}
  [[nodiscard]] std::string seal(std::string_view plain);

 private:
  Key key_;
  std::uint64_t number_ = 0;
};

class Opener {
 public:
  explicit Opener(Key const& key) : key_(key) {}
  /// Nothing: not the next frame of who has the key. Nothing opens after that: the connection is to be closed.
  [[nodiscard]] std::optional<std::string> open(std::string_view sealed);

 private:
  Key key_;
  std::uint64_t number_ = 0;
  bool broken_ = false;
};

}  // namespace cxxrun::rendezvous
