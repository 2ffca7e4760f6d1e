// Guard: one end of a connection between handshake and seals: which frame is to be sent, and what one that came means.
// Pure.
//
// The caller speaks first (`call`); the other end answers, and from then on both seal what they say. One thing comes in
// clear: a note, which the dead cannot seal any more. It was written and proven beforehand (`write_note`); saying it
// again does no harm, for it only says who is dead.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/trust/grant.hpp"
#include "rendezvous/trust/handshake.hpp"
#include "rendezvous/trust/seal.hpp"

namespace cxxrun::rendezvous {

/// What a frame of the other end has led to.
struct SendBack {
  std::string frame;  ///< as it is; what is said from now on is sealed
};
/// The caller has another key than this end's, or none: wrap it for this call, `answer`.
struct WantsWraps {
  CallId call;
};
/// The caller has no use for its answer without the run's key: find it, `give` it.
struct WantsKey {
  KeyOffer offer;
};
struct Unsealed {
  std::string payload;
};
struct Note {
  std::vector<std::string> payloads;
};
/// The connection is to be closed.
struct Broken {
  std::string why;
};
using Heard = std::variant<SendBack, WantsWraps, WantsKey, Unsealed, Note, Broken>;

class Guard {
 public:
  /// Who has called; `call` is to be sent first. `knows`: the id of the key that it has.
  static Guard of_caller(Fresh const& fresh, KeyId const& knows = {});
  /// Who was called. `key`: of its run; nothing: it has none yet, and lets nobody in.
  static Guard of_called(std::optional<Key> key, Fresh const& fresh);

  [[nodiscard]] std::string const& call() const { return call_; }
  [[nodiscard]] Heard hear(std::string_view frame);
  /// The frame that answers the call; what is said from now on is sealed.
  [[nodiscard]] std::string answer(std::vector<Wrap> wraps);
  /// The key that was wanted; `sealed` from now on.
  void give(Key const& key);
  [[nodiscard]] bool sealed() const { return sealer_.has_value(); }
  /// The frame that says `payload`. Only when `sealed`.
  [[nodiscard]] std::string say(std::string_view payload) { return sealer_->seal(payload); }
  /// At least one frame of the other end has opened: it knows the key.
  [[nodiscard]] bool proven() const { return proven_; }

 private:
  explicit Guard(Fresh const& fresh) : fresh_(fresh) {}
  Heard begin(std::string_view frame);

  bool caller_ = false;
  bool proven_ = false;
  std::optional<Key> key_;  ///< of who was called
  Fresh fresh_;
  std::string call_;
  std::string answer_;
  std::optional<Sealer> sealer_;
  std::optional<Opener> opener_;
};

/// One frame, in clear, that says `payloads` and proves that whoever wrote it knew `key`.
[[nodiscard]] std::string write_note(Key const& key, std::vector<std::string> const& payloads);

}  // namespace cxxrun::rendezvous
