// LocalListener: a unix socket that processes of the same user connect to. Shell.
//
// A connection is a guest until keep() or drop(). There are at most 256 guests: a new one evicts the oldest, which
// limits what silent callers can cost. Runs on the thread of the io_context.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "src/base/os/local_socket.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

class LocalListener : public std::enable_shared_from_this<LocalListener> {
 public:
  using Connection = std::shared_ptr<boost::asio::posix::stream_descriptor>;
  /// The connection has input, or the other end has closed it. Not called again before await_input().
  using OnInput = std::function<void(Connection const&)>;

  /// Listens at once, in `directory` (os::listen_local). The caller owns the listener and ends it with
  /// close(). Null, with a line in the log, when no descriptor is left.
  [[nodiscard]] static std::shared_ptr<LocalListener> start(boost::asio::io_context& io, std::string const& directory,
                                                            OnInput on_input);
  LocalListener(LocalListener const&) = delete;
  LocalListener& operator=(LocalListener const&) = delete;
  ~LocalListener() = default;

  [[nodiscard]] std::string const& name() const { return name_; }
  /// Waits for the next input of a guest or of a kept connection.
  void await_input(Connection const& connection);
  /// The connection is no guest any more: the caller owns it.
  void keep(Connection const& connection);
  void drop(Connection const& guest);
  /// Drops all guests and calls OnInput no more. Removes a socket that is a file.
  void close();

 private:
  LocalListener(boost::asio::io_context& io, os::LocalSocket socket, OnInput on_input);
  void arm();
  void accept_some();

  boost::asio::io_context& io_;
  std::string name_;
  OnInput on_input_;
  boost::asio::posix::stream_descriptor listener_;
  os::Timer pause_;
  std::list<Connection> guests_;  // oldest first
};

}  // namespace cxxrun::launcher
