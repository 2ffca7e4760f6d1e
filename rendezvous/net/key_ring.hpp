// KeyRing: the keys that this process knows, and how the key of a run gets from who opened it to the other nodes.
//
// Not thread-safe: use on the thread of its io_context. docs/design/trust.md.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "rendezvous/trust/guard.hpp"
#include "rendezvous/trust/transports.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

class KeyRing : public std::enable_shared_from_this<KeyRing> {
 public:
  using Found = std::function<void(Result<Key>)>;

  KeyRing(boost::asio::io_context& io, KeyTransports transports);

  /// Makes the key of a run that is opened here. `shared`: other nodes are to get it. Blocks for 2 s at most. Errors:
  /// no way to them, in one line that says what to do.
  Result<void> make(bool shared);
  /// The run that this process has joined has this key.
  void take(Key const& key);
  /// From a file that only this user can read.
  void know(Key const& key) { known_.insert_or_assign(id_of(key), key); }
  /// Of the run that was opened here or joined last.
  [[nodiscard]] std::optional<Key> const& own() const { return own_; }

  [[nodiscard]] Guard called() const;
  [[nodiscard]] Guard calls() const;
  /// The key that an answer is about, if it is known.
  [[nodiscard]] std::optional<Key> known(KeyId const& id) const;
  /// Takes it out of one of the answer's wraps. `found` runs later, from the io_context, unless the ring is gone.
  void unwrap(KeyOffer const& offer, Found found);

 private:
  [[nodiscard]] bool has(WrapKind kind) const;

  boost::asio::io_context& io_;
  KeyTransports transports_;
  std::optional<Key> own_;
  std::vector<Wrap> wraps_;  ///< of `own_`; none when nobody else is to get it from here
  std::map<KeyId, Key> known_;
};

}  // namespace cxxrun::rendezvous
