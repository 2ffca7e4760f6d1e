// Channel: one connection of the agent protocol. Frames in, frames out, one place to close.
//
// Every agent ↔ coordinator connection passes through here, in both directions: this is where authentication and a
// MAC per frame belong (design: "closed by default"). Shell header: for server.cpp, coordinator_link.cpp and tests
// only.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/ip/tcp.hpp>

#include "src/wire/frame.hpp"

namespace cxxrun::rendezvous {

/// Not thread-safe: use on the thread of its io_context. Callbacks never run inside a call into the Channel, but for a
/// start at once.
class Channel : public std::enable_shared_from_this<Channel> {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  struct Handlers {
    std::function<void(std::string payload)> frame;
    /// Once, unless `close` was called. `how`: "end of file", "connection reset", "protocol error: …".
    /// `fin`: in order; the other process has closed it or is dead. A reset proves neither: firewalls make them too.
    std::function<void(std::string how, bool fin)> closed;
  };

  explicit Channel(Socket socket);

  /// Begins to read; `at_once`: what is there already before it returns.
  void start(Handlers handlers, bool at_once = false);
  /// Takes no longer frames than this from now on.
  void limit(std::size_t most) { reader_.limit(most); }
  /// Queues one frame. A peer that does not read loses the connection at 8 MiB of queue.
  void send(std::string const& payload);
  /// Closes at once; no callback follows.
  void close();
  /// Closes when everything queued is written; no callback follows.
  void close_after_flush();
  /// Address of this end of the connection as text, IPv4-mapped addresses as IPv4.
  [[nodiscard]] std::string local_address() const;
  /// The same of the peer's end.
  [[nodiscard]] std::string remote_address() const;

 private:
  void read();
  void read_some(boost::system::error_code error);
  void write();
  void received(std::string_view bytes);
  void fail(std::string how, bool fin = false);

  Socket socket_;
  Handlers handlers_;
  wire::FrameReader reader_;
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  bool writing_ = false;
  bool closing_ = false;
  bool open_ = true;
};

}  // namespace cxxrun::rendezvous
