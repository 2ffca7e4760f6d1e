// PortWatch: looks in the discovery file for a coordinator that got none of the ports at which it is called. Shell.
//
// Runs on the thread of the io_context given to it, which waits for no file: others do.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "src/base/core/time.hpp"
#include "src/base/os/timer.hpp"

namespace cxxrun::launcher {

class PortWatch {
 public:
  /// `found`: with the port in the file, each time that it was read.
  PortWatch(boost::asio::io_context& io, std::function<void(std::uint16_t)> found);

  /// Looks at the file after a second, and then ever more rarely, until `stop`.
  void begin(std::string const& path);
  void stop();

 private:
  void look();

  boost::asio::io_context& io_;
  std::function<void(std::uint16_t)> found_;
  os::Timer timer_;
  std::string path_;
  Millis pause_{0};
};

}  // namespace cxxrun::launcher
