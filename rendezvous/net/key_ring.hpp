// KeyRing: the keys that this process knows, and how the key of a run gets from who opened it to the other nodes.
//
// Not thread-safe: use on the thread of its io_context. docs/design/trust.md.
#pragma once

#include <deque>
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
  void know(Key const& key) {
    latest_ = id_of(key);
    known_.insert_or_assign(latest_, key);
  }
  /// Of the run that was opened here or joined last.
  [[nodiscard]] std::optional<Key> const& own() const { return own_; }

  /// As which the run that is opened here is known besides. Before anybody calls.
  void open_as(std::string name) { transports_.opens.push_back(std::move(name)); }

  [[nodiscard]] Guard called() const;
  [[nodiscard]] Guard calls() const;
  /// Wraps the own key for who has said that call. `done` runs later, from the io_context, unless the ring or
  /// `caller` is gone: with none where nobody else is to get the key from here.
  void wrap_for(CallId const& call, std::weak_ptr<void> caller, std::function<void(std::vector<Wrap>)> done);
  /// The key that an answer is about, if it is known.
  [[nodiscard]] std::optional<Key> known(KeyId const& id) const;
  /// Takes it out of one of the wraps of the answer to that call. `found` runs later, from the io_context, unless the
  /// ring is gone. Errors are of all ways that were tried; is_of_another_run() where one says so.
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
  std::vector<WrapKind> ways_;   ///< of `own_` to others; none when nobody is to get it from here
  std::deque<Waiting> waiting_;  ///< callers that want a wrap
  bool wraps_ = false;           ///< for some of them, at this moment
  std::map<KeyId, Key> known_;
  KeyId latest_{};  ///< the last that was made known
};

}  // namespace cxxrun::rendezvous
