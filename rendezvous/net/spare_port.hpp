// Calls from a host whose ports are used up. Shell header: for who connects with Asio only.
#pragma once

#include <boost/asio/ip/tcp.hpp>

#include "src/os/spare_ports.hpp"

namespace cxxrun::rendezvous {

/// What a connection attempt ends with where the kernel has no port left to call from.
[[nodiscard]] inline bool lacks_port(boost::system::error_code const& error) {
  return error == boost::system::errc::address_not_available;
}

/// After such an attempt: opens the socket anew, at a port that the kernel does not hand out. False: there is none.
[[nodiscard]] inline bool take_spare_port(boost::asio::ip::tcp::socket& socket,
                                          boost::asio::ip::tcp::endpoint const& to) {
  boost::system::error_code ignored;
  socket.close(ignored);
  boost::system::error_code error;
  socket.open(to.protocol(), error);
  boost::asio::ip::tcp::endpoint any(to.protocol(), 0);
  return !error && os::bind_to_spare_port(socket.native_handle(), any.data(), static_cast<socklen_t>(any.size())) == 0;
}

}  // namespace cxxrun::rendezvous
