// Lookup: the addresses of one host's names, in order. Shell header: for coordinator_link.cpp only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "cxxrun/error.hpp"
#include "rendezvous/net/doors.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::rendezvous {

class Lookup : public std::enable_shared_from_this<Lookup> {
 public:
  using Addresses = std::vector<boost::asio::ip::address>;

  explicit Lookup(boost::asio::io_context& io) : resolver_(io), timer_(io) {}

  /// `found` runs once, unless `cancel` is called: inside of this for literals alone. A name that does not resolve yet
  /// is tried again for `patience`, a minute at most. Errors: not_found, when no name has an address.
  void start(std::vector<std::string> names, Millis patience, std::function<void(Result<Addresses>)> found);
  void cancel();

 private:
  void resolve(std::size_t index);
  void resolved(std::size_t index, boost::system::error_code const& failed,
                boost::asio::ip::tcp::resolver::results_type const& results);
  void add(boost::asio::ip::address const& address);

  boost::asio::ip::tcp::resolver resolver_;
  os::Timer timer_;
  std::vector<std::string> names_;
  Millis patience_{0};
  TimePoint give_up_at_;
  std::function<void(Result<Addresses>)> found_;
  Addresses addresses_;
  Millis pause_ = Doors::kFirstPause;
  std::string trouble_;
};

}  // namespace cxxrun::rendezvous
