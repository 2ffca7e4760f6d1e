// The coordinator's listening socket. Shell header: for server.cpp only.
#pragma once

#include <cstdint>
#include <memory>

#include <boost/asio/ip/tcp.hpp>

namespace cxxrun::rendezvous {

/// A listening socket on every address (IPv6 and IPv4 in one where the machine has IPv6), or nothing and the error.
[[nodiscard]] std::unique_ptr<boost::asio::ip::tcp::acceptor> listen_on(boost::asio::io_context& io, std::uint16_t port,
                                                                        bool loopback_only,
                                                                        boost::system::error_code& error);

}  // namespace cxxrun::rendezvous
