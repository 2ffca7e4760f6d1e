// Channel: one connection of the agent protocol. Frames in, frames out, one place to close. Shell.
//
// Every connection between an agent and a coordinator uses it, on both sides. With a key ring both ends prove that they
// know the run's key, and seal what they send (trust/secure_channel.hpp).
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "rendezvous/net/key_ring.hpp"
#include "rendezvous/protocol/messages.hpp"
#include "rendezvous/values/connection.hpp"
#include "src/base/wire/frame.hpp"

namespace cxxrun::rendezvous {

/// Whether a connection attempt failed because the kernel has no local port left.
[[nodiscard]] inline bool lacks_port(boost::system::error_code const& error) {
  return error == boost::system::errc::address_not_available;
}

/// Where the events of a Channel go: to a Peer at the coordinator; at an agent to CoordinatorLink::Impl::Attempt and
/// BeatLine::Line.
struct ChannelInbox {
  virtual void on_frame(std::string payload) = 0;
  /// Runs once, unless `close` was called. `how`: "it hung up", "end of file", "connection reset", "protocol error: …".
  virtual void on_closed(std::string how, Ended ended) = 0;
  /// At the called end: the caller has begun a handshake, which proves nothing yet.
  virtual void on_called() {}
};

/// Not thread-safe: use on the thread of its io_context. The inbox is never called inside a call into the Channel,
/// except in start() of the called end.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  enum class End { caller, called };

  explicit Channel(Socket socket);

  /// Starts to read; the called end reads what has arrived already before this returns. Once the inbox is gone, events
  /// are dropped. `keys`: both ends must prove themselves; null: frames go in clear.
  void start(std::weak_ptr<ChannelInbox> inbox, End end = End::called, std::shared_ptr<KeyRing> keys = nullptr);
  /// From now on refuses frames longer than this.
  void limit(std::size_t most) { reader_.limit(most + kSealBytes); }
  /// Queues one frame, and holds it back until frames can be sealed. If the peer does not read, the connection ends at
  /// 8 MiB of queue.
  void send(std::string const& payload);
  /// Closes at once, after a goodbye if nothing is queued; no event follows.
  void close();
  /// Says goodbye and closes when the queue is written; no event follows.
  void close_after_flush();
  /// Address of this end as text, an IPv4-mapped one as IPv4; "" = closed.
  [[nodiscard]] std::string local_address() const;
  /// The same of the peer's end.
  [[nodiscard]] std::string remote_address() const;
  /// Both ends as this side sees them.
  [[nodiscard]] BothEnds ends() const;
  /// Whether frames are sealed, or in clear because there are no keys. Not for a death notice, which comes before a
  /// seal.
  [[nodiscard]] bool converses() const { return !secure_ || secure_->sealed(); }
  /// At the caller: the run's key, once frames are sealed.
  [[nodiscard]] std::optional<Key> const& key() const { return key_; }

 private:
  void read();
  void read_some(boost::system::error_code error);
  void write();
  void take_frames();
  void on_frame(std::string const& frame);
  void wrap_key(CallId const& call);
  void find_key(KeyOffer const& answer);
  void seal_with(Key const& key);
  void deliver(std::string payload);
  void send_frame(std::string const& frame);
  [[nodiscard]] bool note_end(boost::system::error_code const& error);
  void fail(std::string how, Ended ended = Ended::broken);
  void say_goodbye();
  void end();

  Socket socket_;
  std::weak_ptr<ChannelInbox> inbox_;
  wire::FrameReader reader_;
  std::shared_ptr<KeyRing> keys_;
  std::optional<SecureChannel> secure_;
  std::optional<Key> key_;
  std::vector<std::string> held_;  ///< payloads to be sent once they can be sealed
  bool finding_ = false;           ///< the key, or a wrap of it, is being made: nothing is read until then
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  bool writing_ = false;
  bool closing_ = false;
  bool open_ = true;
  bool received_ = false;  ///< a message has come
  bool goodbye_ = false;   ///< the other end has said goodbye
  End side_ = End::called;
  /// The error of a write that found the connection ended. After a write has reported a reset the kernel reports an
  /// orderly end to reads, so the first error is kept. After a FIN a write reports EPIPE.
  boost::system::error_code broken_;
};

/// A connection that is begun here: a socket, and once that is connected a Channel. Held by a shared_ptr.
struct Dialled : ChannelInbox, std::enable_shared_from_this<Dialled> {
  explicit Dialled(boost::asio::io_context& io) : socket(io) {}
  /// If the kernel has no local port left, it tries again from a port that the kernel does not hand out. This object
  /// lives until `handler` has run. If it is closed in between it stays closed.
  void connect(boost::asio::ip::tcp::endpoint const& to,
               std::function<void(boost::system::error_code const&)> const& handler);
  /// Once connected: makes the Channel, and sends the hello with the ends of the connection.
  void greet(Hello hello, std::shared_ptr<KeyRing> keys);
  void close();

  Channel::Socket socket;
  std::shared_ptr<Channel> channel;  ///< once greeted
};

}  // namespace cxxrun::rendezvous
