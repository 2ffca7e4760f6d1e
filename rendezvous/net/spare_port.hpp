// Calls from a host whose ports are used up. Shell header: for who connects with Asio only.
#pragma once

#include <memory>
#include <utility>

#include <boost/asio/ip/tcp.hpp>

#include "src/base/os/spare_ports.hpp"

namespace cxxrun::rendezvous {

/// What a connection attempt ends with where the kernel has no port left to call from.
[[nodiscard]] inline bool lacks_port(boost::system::error_code const& error) {
  return error == boost::system::errc::address_not_available;
}

/// async_connect of `there->socket`, and after such an attempt a second one, from a port that the kernel does not hand
/// out. `there` lives until `handler` has run; a socket that is closed meanwhile is not opened again.
template <class Place, class Handler>
void connect_from_somewhere(std::shared_ptr<Place> const& there, boost::asio::ip::tcp::endpoint const& to,
                            Handler handler) {
  auto again = [there, to, handler = std::move(handler)](boost::system::error_code const& error) mutable {
    auto& socket = there->socket;
    if (lacks_port(error) && socket.is_open()) {
      boost::system::error_code failed;
      socket.close(failed);
      socket.open(to.protocol(), failed);
      boost::asio::ip::tcp::endpoint any(to.protocol(), 0);
      if (!failed &&
          os::bind_to_spare_port(socket.native_handle(), any.data(), static_cast<socklen_t>(any.size())) == 0) {
        socket.async_connect(to, [there, handler = std::move(handler)](auto const& last) mutable { handler(last); });
        return;
      }
    }
    handler(error);
  };
  there->socket.async_connect(to, std::move(again));
}

}  // namespace cxxrun::rendezvous
