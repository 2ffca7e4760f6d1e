// Channel: one connection of the agent protocol. Frames in, frames out, one place to close.
//
// Every agent ↔ coordinator connection passes through here, in both directions. With a key ring both ends prove that
// they know the run's key, and what they say is sealed (rendezvous/trust). Shell header: for server.cpp,
// coordinator_link.cpp and tests only.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "rendezvous/net/key_ring.hpp"
#include "rendezvous/trust/both_ends.hpp"
#include "rendezvous/values/ended.hpp"
#include "src/base/wire/frame.hpp"

namespace cxxrun::rendezvous {

/// Not thread-safe: use on the thread of its io_context. Callbacks never run inside a call into the Channel, but for a
/// start of who was called.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  struct Handlers {
    std::function<void(std::string payload)> frame;
    /// Once, unless `close` was called. `how`: "it hung up", "end of file", "connection reset", "protocol error: …".
    std::function<void(std::string how, Ended ended)> closed;
    /// Of who was called: a handshake has begun, which proves nothing. May be empty.
    std::function<void()> called;
  };

  enum class End { caller, called };

  explicit Channel(Socket socket);

  /// Begins to read; who was called reads what is there already before this returns. `keys`: how this end proves
  /// itself, and asks the other to; none: frames go in clear, whoever it is.
  void start(Handlers handlers, End end = End::called, std::shared_ptr<KeyRing> keys = nullptr);
  /// Takes no longer frames than this from now on.
  void limit(std::size_t most) { reader_.limit(most + kSealBytes); }
  /// Queues one frame; held back until the other end is asked for its proof. A peer that does not read loses the
  /// connection at 8 MiB of queue.
  void send(std::string const& payload);
  /// Closes at once, with a goodbye if nothing is queued; no callback follows.
  void close();
  /// Says goodbye, and closes when everything queued is written; no callback follows.
  void close_after_flush();
  /// Address of this end of the connection as text, IPv4-mapped addresses as IPv4.
  [[nodiscard]] std::string local_address() const;
  /// The same of the peer's end.
  [[nodiscard]] std::string remote_address() const;
  /// As this side sees them.
  [[nodiscard]] BothEnds ends() const;
  /// Whether this is a conversation: under seal, or in clear where nothing else is asked for. A note is none.
  [[nodiscard]] bool converses() const { return !guard_ || guard_->sealed(); }
  /// Of the caller: the key that it is sealed with.
  [[nodiscard]] std::optional<Key> const& key() const { return key_; }

 private:
  void read();
  void read_some(boost::system::error_code error);
  void write();
  void take_frames();
  void heard(std::string const& frame);
  void tell_called();
  void wrap_key(CallId const& call);
  void find_key(KeyOffer const& answer);
  void seal_with(Key const& key);
  void pass_on(std::string payload);
  void send_frame(std::string const& frame);
  [[nodiscard]] bool broken_by(boost::system::error_code const& error);
  void fail(std::string how, Ended ended = Ended::broken);
  void say_goodbye();
  void end();

  Socket socket_;
  Handlers handlers_;
  wire::FrameReader reader_;
  std::shared_ptr<KeyRing> keys_;
  std::optional<Guard> guard_;
  std::optional<Key> key_;
  std::vector<std::string> held_;  ///< said before it could be sealed
  bool finding_ = false;           ///< the key, or a wrap of it, is being looked for: nothing is read meanwhile
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  bool writing_ = false;
  bool closing_ = false;
  bool open_ = true;
  bool spoken_to_ = false;  ///< a message has come
  bool bidden_ = false;     ///< the other end has said goodbye
  End side_ = End::called;
  /// What a write has ended with. The kernel says once that a connection was reset, and lets reads find an orderly end
  /// then; after a FIN it says EPIPE.
  boost::system::error_code broken_;
};

}  // namespace cxxrun::rendezvous
