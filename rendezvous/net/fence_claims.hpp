// FenceClaims: the fence files of a coordinator, each on a thread of its own, so that a file system that hangs stops
// nobody. Shell; runs on the thread of the io_context given to it.
#pragma once

#include <functional>
#include <memory>

#include "rendezvous/net/fence_file.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

class FenceClaims {
 public:
  explicit FenceClaims(boost::asio::io_context& io);
  ~FenceClaims();  ///< Waits 2 s at most for files that are being removed; no handler runs.
  FenceClaims(FenceClaims const&) = delete;
  FenceClaims& operator=(FenceClaims const&) = delete;

  /// `done` once, from the io_context: within 10 s, whatever the file system does.
  void claim(FencePlace const& place, AcceptedDecree const& value, std::function<void(Fenced)> done);
  void remove(FencePlace const& place);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::rendezvous
