#include "launcher/agent/port_watch.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "launcher/place/discovery_file.hpp"
#include "src/base/os/beside.hpp"

namespace cxxrun::launcher {
namespace {

/// A thousand nodes may wait for one that is late: their file system is not to be asked a thousand times a second.
constexpr Millis kLongestPause{8000};

}  // namespace

PortWatch::PortWatch(boost::asio::io_context& io, std::function<void(std::uint16_t)> found)
    : io_(io), found_(std::move(found)), timer_(io) {}

void PortWatch::begin(std::string const& path) {
  path_ = path;
  pause_ = kBetweenLooks;
  timer_.after(pause_, [this] { look(); });
}

void PortWatch::stop() {
  path_.clear();
  timer_.cancel();
}

/// What cannot be read changes nothing: most coordinators are where they are called.
void PortWatch::look() {
  using Read = Result<std::optional<Discovery>>;
  os::beside<Read>(
      io_, "cxxrun-find", kDirectoryPatience, [path = path_] { return read_discovery(path); },
      fail(Errc::timeout, path_),
      [this](Read const& read) {
        if (path_.empty()) {
          return;
        }
        pause_ = std::min(pause_ * 2, kLongestPause);
        timer_.after(pause_, [this] { look(); });
        if (read && read->has_value()) {
          found_((*read)->port);
        }
      });
}

}  // namespace cxxrun::launcher
