// BeatLine: an agent's second connection to a coordinator, for beats only, so that data never delays them.
//
// It stands by itself: the first beat dials it, one that has ended is dialled again with the next beat. Beats that stay
// unanswered may sit behind a retransmission timer that has backed off beyond the heartbeat timeout (a cut of a few
// seconds does that), so each further one is also sent on a freshly dialled connection; the first one to answer stays.
//
// Shell; runs on the thread of the io_context given to it.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "rendezvous/net/key_ring.hpp"
#include "rendezvous/protocol/messages.hpp"

namespace cxxrun::rendezvous {

class BeatLine : public std::enable_shared_from_this<BeatLine> {
 public:
  /// `answered` runs from the io_context and may let go of the line.
  BeatLine(boost::asio::io_context& io, boost::asio::ip::tcp::endpoint to, Hello hello, std::shared_ptr<KeyRing> keys,
           std::function<void(BeatAck)> answered);
  ~BeatLine();  ///< Ends the connections in order; no handler runs afterwards.
  BeatLine(BeatLine const&) = delete;
  BeatLine& operator=(BeatLine const&) = delete;

  void send(Beat const& beat);

 private:
  struct Line;
  [[nodiscard]] bool waits() const;
  [[nodiscard]] bool has(std::shared_ptr<Line> const& line) const;
  void dial();
  void greet(std::shared_ptr<Line> const& line);
  void received(std::shared_ptr<Line> const& line, std::string const& payload);
  void drop(std::shared_ptr<Line> line);

  boost::asio::io_context& io_;
  boost::asio::ip::tcp::endpoint to_;
  Hello hello_;
  std::shared_ptr<KeyRing> keys_;
  std::function<void(BeatAck)> answered_;
  std::deque<std::shared_ptr<Line>> lines_;  // oldest first; more than one only while beats stay unanswered
  Beat newest_;
  std::size_t unanswered_ = 0;
};

}  // namespace cxxrun::rendezvous
