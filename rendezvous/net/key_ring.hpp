// KeyRing: the keys that this process knows, and the exchange of a run's key between its nodes (docs/design/trust.md).
//
// Shell. Not thread-safe: use on the thread of its io_context.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "rendezvous/trust/grant.hpp"
#include "rendezvous/trust/secure_channel.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

class KeyRing : public std::enable_shared_from_this<KeyRing> {
 public:
  using Found = std::function<void(Result<Key>)>;

  KeyRing(boost::asio::io_context& io, KeyTransports transports);

  /// Makes the key of a run that is opened here. `shared`: other nodes will get it. Blocks for 2 s at most. Errors:
  /// there is no way to share it; one line that says what to do.
  Result<void> make(bool shared);
  /// This process has joined a run with this key.
  void take(Key const& key);
  /// Adds a key, for instance from a file that only this user can read.
  void know(Key const& key) {
    latest_ = id_of(key);
    known_.insert_or_assign(latest_, key);
  }
  /// The key of the run that was opened here or joined last.
  [[nodiscard]] std::optional<Key> const& own() const { return own_; }

  /// Adds a name of the run that is opened here. Call it before the first connection.
  void open_as(std::string name) { transports_.opens.push_back(std::move(name)); }

  /// The two ends of a new connection.
  [[nodiscard]] SecureChannel called() const;
  [[nodiscard]] SecureChannel calls() const;
  /// Wraps our key for the caller that sent `call`. `done` runs later, from the io_context, unless the ring or `caller`
  /// is gone; without wraps if this process shares no key.
  void wrap_for(CallId const& call, std::weak_ptr<void> caller, std::function<void(std::vector<Wrap>)> done);
  /// The key with this id, if it is known.
  [[nodiscard]] std::optional<Key> known(KeyId const& id) const;
  /// Unwraps the key from one of the wraps in the answer to `call`. `found` runs later, from the io_context, unless the
  /// ring is gone. The error joins those of all wraps; it is is_of_another_run() if one of them is.
  void unwrap(KeyOffer const& offer, CallId const& call, Found found);

 private:
  struct Waiting {
    CallId call;
    std::weak_ptr<void> caller;
    std::function<void(std::vector<Wrap>)> done;
  };
  [[nodiscard]] bool has(WrapKind kind) const;
  void wrap_next();

  boost::asio::io_context& io_;
  KeyTransports transports_;
  std::optional<Key> own_;
  std::vector<WrapKind> ways_;   ///< ways to wrap `own_`; empty: it is not shared from here
  std::deque<Waiting> waiting_;  ///< callers that wait for a wrap
  bool wrapping_ = false;        ///< a batch of them is being wrapped
  std::map<KeyId, Key> known_;
  KeyId latest_{};  ///< the key that was added last
};

}  // namespace cxxrun::rendezvous
