// SecureChannel: one end of a connection that is encrypted under the run's key: handshake first, then sealed frames.
// Pure: it says what to send and what a received frame means.
//
// The caller sends its call, the other end answers, and from then on both seal every frame (handshake.hpp). Only a
// death notice goes in clear, since a dead agent cannot seal: the agent wrote and proved it in advance, and its parent
// sends it. A replay does no harm, for it only says who is dead.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/trust/grant.hpp"
#include "rendezvous/trust/handshake.hpp"

namespace cxxrun::rendezvous {

// ---- seals: the frames of one direction, encrypted and numbered -----------------------------------
// ChaCha20-Poly1305 (RFC 8439) under a key for this direction of this connection alone. The AEAD nonce is the number of
// the frame, so a frame that is left out, repeated, moved, altered or reflected does not open.

/// Bytes by which a sealed frame is longer than its content.
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
  /// Nothing: this is not the next frame sealed under the key. Then nothing opens any more, and the connection must be
  /// closed.
  [[nodiscard]] std::optional<std::string> open(std::string_view sealed);

 private:
  Key key_;
  std::uint64_t number_ = 0;
  bool broken_ = false;
};

// ---- the channel ----------------------------------------------------------------------------------

/// Send this frame as it is; later ones are sealed.
struct SendBack {
  std::string frame;
};
/// The caller does not have this end's key: wrap it for this call, and send what `answer` returns.
struct WantsWraps {
  CallId call;
};
/// The caller needs the key that this answer offers: find it and call `use_key`.
struct WantsKey {
  KeyOffer offer;
};
/// A sealed frame with this content.
struct Unsealed {
  std::string payload;
};
/// A death notice in clear, proven by the run's key.
struct DeathNotice {
  std::vector<std::string> payloads;
};
/// Close the connection.
struct Broken {
  std::string why;
};
/// What a received frame means.
using FrameResult = std::variant<SendBack, WantsWraps, WantsKey, Unsealed, DeathNotice, Broken>;

class SecureChannel {
 public:
  /// The end that connects: send `call` first. `knows`: id of the key that it has; zeros: none.
  static SecureChannel of_caller(Nonce const& nonce, KeyId const& knows = {});
  /// The other end. `key`: of its run; nothing: it has none yet, and refuses every call.
  static SecureChannel of_called(std::optional<Key> key, Nonce const& nonce);

  [[nodiscard]] std::string const& call() const { return call_; }
  [[nodiscard]] FrameResult on_frame(std::string_view frame);
  /// After WantsWraps: returns the frame that answers the call; later frames are sealed.
  [[nodiscard]] std::string answer(std::vector<Wrap> wraps);
  /// After WantsKey: frames are sealed from now on.
  void use_key(Key const& key);
  [[nodiscard]] bool sealed() const { return sealer_.has_value(); }
  /// The frame that carries `payload`. Requires `sealed`.
  [[nodiscard]] std::string seal(std::string_view payload) {
    assert(sealed());
    return sealer_->seal(payload);
  }
  /// Whether the other end has proven that it knows the key: a frame of its has opened.
  [[nodiscard]] bool proven() const { return proven_; }

 private:
  explicit SecureChannel(Nonce const& nonce) : nonce_(nonce) {}
  FrameResult on_handshake(std::string_view frame);

  bool caller_ = false;
  bool proven_ = false;
  std::optional<Key> key_;  ///< of the called end only
  Nonce nonce_;
  std::string call_;
  std::string answer_;
  std::optional<Sealer> sealer_;
  std::optional<Opener> opener_;
};

/// One frame in clear that carries `payloads` and proves that its writer knew `key`.
[[nodiscard]] std::string sign_death_notice(Key const& key, std::vector<std::string> const& payloads);

}  // namespace cxxrun::rendezvous
