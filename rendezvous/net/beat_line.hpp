// BeatLine: an agent's second connection to a coordinator, for beats only, so that data never delays them.
//
// The first beat dials it. If it has ended, the next beat dials again. After a network cut of a few seconds TCP may
// have backed off its retransmissions beyond the heartbeat timeout. So while beats are unanswered, each further beat is
// also sent on a new connection, and the first connection that answers replaces all others.
//
// Shell; runs on the thread of the io_context given to it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "rendezvous/net/key_ring.hpp"
#include "rendezvous/protocol/messages.hpp"

namespace cxxrun::rendezvous {

/// Where the events of a BeatLine go: to its CoordinatorLink.
struct BeatInbox {
  /// May destroy the BeatLine.
  virtual void on_beat_answered(BeatAck const& ack) = 0;
};

class BeatLine : public std::enable_shared_from_this<BeatLine> {
 public:
  BeatLine(boost::asio::io_context& io, boost::asio::ip::tcp::endpoint to, Hello hello, std::shared_ptr<KeyRing> keys,
           std::weak_ptr<BeatInbox> inbox);
  ~BeatLine();  ///< Closes the connections in order; no event follows.
  BeatLine(BeatLine const&) = delete;
  BeatLine& operator=(BeatLine const&) = delete;

  void send(Beat const& beat);

 private:
  struct Line;
  [[nodiscard]] bool waits_for_newest() const;
  void dial();
  void received(std::shared_ptr<Line> const& line, std::string const& payload);
  void drop(std::shared_ptr<Line> line);

  boost::asio::io_context& io_;
  boost::asio::ip::tcp::endpoint to_;
  Hello hello_;
  std::shared_ptr<KeyRing> keys_;
  std::weak_ptr<BeatInbox> inbox_;
  std::deque<std::shared_ptr<Line>> lines_;  // oldest first; more than one only while beats are unanswered
  Beat newest_;
  std::size_t unanswered_ = 0;
};

}  // namespace cxxrun::rendezvous
