// SilenceWatch: the shell around silence.hpp. One timer; tells who has been silent for too long.
//
// Runs on the thread of the io_context given to it. It decides nothing: silence.hpp does.
#pragma once

#include <functional>
#include <memory>

#include "rendezvous/silence.hpp"

namespace boost::asio {
class io_context;
}

namespace cxxrun::rendezvous {

class SilenceWatch {
 public:
  /// `lost` is called from the io_context, once per silent peer; it may destroy the watch.
  SilenceWatch(boost::asio::io_context& io, SilencePolicy policy, std::function<void(PeerId)> lost);
  ~SilenceWatch();
  SilenceWatch(SilenceWatch const&) = delete;
  SilenceWatch& operator=(SilenceWatch const&) = delete;

  /// A sign of life. The first one of a peer puts it under watch.
  void heard(PeerId peer);
  /// The peer is gone for another reason.
  void forget(PeerId peer);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cxxrun::rendezvous
