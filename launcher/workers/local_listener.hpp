// LocalListener: a unix socket on which processes of the same user call. Shell.
//
// A caller is a guest until keep() or drop(); there are at most 256 guests, and the oldest goes when there are more, so
// that callers who say nothing cost no more than that. Runs on the thread of the io_context.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "src/base/os/timer.hpp"
#include "src/base/worker/segment_socket.hpp"

namespace cxxrun::launcher {

class LocalListener : public std::enable_shared_from_this<LocalListener> {
 public:
  using Connection = std::shared_ptr<boost::asio::posix::stream_descriptor>;
  /// There is something to read, or the other end is gone. Not called again before hear().
  using Heard = std::function<void(Connection const&)>;

  /// Listens at once, in `directory` (host::listen_for_segments). Owned by the caller, who ends it with close(). Null,
  /// and a line in the log, without a descriptor to spare.
  [[nodiscard]] static std::shared_ptr<LocalListener> start(boost::asio::io_context& io, std::string const& directory,
                                                            Heard heard);
  LocalListener(LocalListener const&) = delete;
  LocalListener& operator=(LocalListener const&) = delete;
  ~LocalListener() = default;

  [[nodiscard]] std::string const& name() const { return name_; }
  /// Once more, of a guest or of one that is kept, until it is closed.
  void hear(Connection const& connection);
  /// It is the caller's from now on.
  void keep(Connection const& connection);
  void drop(Connection const& guest);
  /// Drops all guests; nothing is heard any more, and a socket that is a file is removed.
  void close();

 private:
  LocalListener(boost::asio::io_context& io, host::SegmentSocket socket, Heard heard);
  void arm();
  void accept_some();

  boost::asio::io_context& io_;
  std::string name_;
  Heard heard_;
  boost::asio::posix::stream_descriptor listener_;
  os::Timer pause_;
  std::list<Connection> guests_;  // oldest first
};

}  // namespace cxxrun::launcher
