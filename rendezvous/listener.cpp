#include "rendezvous/listener.hpp"

#include <fcntl.h>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>

namespace cxxrun::rendezvous {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

namespace {

constexpr int kBacklog = 4096;

}  // namespace

std::unique_ptr<tcp::acceptor> listen_on(boost::asio::io_context& io, std::uint16_t port, bool loopback_only,
                                         ErrorCode& error) {
  auto acceptor = std::make_unique<tcp::acceptor>(io);
  tcp::endpoint where(tcp::v6(), port);
  acceptor->open(tcp::v6(), error);
  if (!error) {
    acceptor->set_option(boost::asio::ip::v6_only(false), error);
  }
  if (error || loopback_only) {
    where =
        loopback_only ? tcp::endpoint(boost::asio::ip::address_v4::loopback(), port) : tcp::endpoint(tcp::v4(), port);
    ErrorCode ignored;
    acceptor->close(ignored);
    acceptor->open(tcp::v4(), error);
  }
  if (!error) {
    fcntl(acceptor->native_handle(), F_SETFD, FD_CLOEXEC);
    acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  }
  if (!error) {
    acceptor->bind(where, error);
  }
  if (!error) {
    acceptor->listen(kBacklog, error);
  }
  return error ? nullptr : std::move(acceptor);
}

}  // namespace cxxrun::rendezvous
