// Listener: one listening socket of a coordinator, and its accepting. Shell header: for server.cpp only.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <boost/asio/ip/tcp.hpp>

#include "src/base/core/time.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::rendezvous {

/// Not thread-safe: use on the thread of its io_context.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  using Acceptor = boost::asio::ip::tcp::acceptor;
  using Accepted = std::function<void(boost::asio::ip::tcp::socket)>;

  explicit Listener(boost::asio::io_context& io);

  /// Takes a socket that is bound, and listens, already.
  [[nodiscard]] boost::system::error_code adopt(os::UniqueFd socket);

  /// Accepts until `close`. `hold`, asked before each: how long callers have to wait in the backlog; 0: no longer.
  void accept(Accepted accepted, std::function<Millis()> hold);
  void close();

 private:
  void next();

  Acceptor acceptor_;
  os::Timer pause_;
  Accepted accepted_;
  std::function<Millis()> hold_;
  std::optional<TimePoint> told_;  ///< when it was said last that it cannot accept
};

}  // namespace cxxrun::rendezvous
