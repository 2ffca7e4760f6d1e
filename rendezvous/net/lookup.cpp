#include "rendezvous/net/lookup.hpp"

#include <algorithm>
#include <utility>

#include "src/base/os/limits.hpp"
#include "src/base/os/local_address.hpp"
#include "src/base/os/log.hpp"

namespace cxxrun::rendezvous {

using ErrorCode = boost::system::error_code;

void Lookup::start(std::vector<std::string> names, Millis patience, std::function<void(Result<Addresses>)> found) {
  names_ = std::move(names);
  patience_ = std::min(patience, os::kForNameServer);
  give_up_at_ = Clock::now() + patience_;
  found_ = std::move(found);
  resolve(0);
}

void Lookup::cancel() {
  found_ = {};
  timer_.cancel();
  resolver_.cancel();
}

/// One that does not resolve matters when nothing else does.
void Lookup::resolve(std::size_t index) {
  if (index == names_.size()) {
    auto const found = std::exchange(found_, {});
    found(addresses_.empty() ? Result<Addresses>(fail(Errc::not_found, trouble_)) : addresses_);
    return;
  }
  ErrorCode error;
  auto const literal = boost::asio::ip::make_address(names_[index], error);
  if (!error) {
    add(literal);
    resolve(index + 1);
    return;
  }
  try {
    resolver_.async_resolve(names_[index], "",
                            [self = shared_from_this(), index](ErrorCode const& failed, auto const& results) {
                              if (self->found_) {
                                self->resolved(index, failed, results);
                              }
                            });
  } catch (std::exception const& refused) {  // no thread to ask on: later, workers run that are not to end for it
    trouble_ = os::explain_refusal("cannot resolve host " + names_[index], refused);
    resolve(index + 1);
  }
}

void Lookup::resolved(std::size_t index, ErrorCode const& failed,
                      boost::asio::ip::tcp::resolver::results_type const& results) {
  bool const later = failed == boost::asio::error::host_not_found_try_again;
  if (later && Clock::now() < give_up_at_) {
    if (trouble_.empty()) {
      trouble_ = os::unknown_yet(names_[index], patience_);
      log(Level::warn, trouble_);
    }
    timer_.after(pause_, [this, index] { resolve(index); });
    pause_ = std::min(pause_ * 2, Doors::kLongestPause);
    return;
  }
  if (failed) {
    trouble_ = os::unknown_host(names_[index], later, failed.message());
  }
  for (auto const& entry : results) {
    add(entry.endpoint().address());
  }
  resolve(index + 1);
}

void Lookup::add(boost::asio::ip::address const& address) {
  if (std::find(addresses_.begin(), addresses_.end(), address) == addresses_.end()) {
    addresses_.push_back(address);
  }
}

}  // namespace cxxrun::rendezvous
