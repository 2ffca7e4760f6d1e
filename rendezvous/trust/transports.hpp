// KeyTransports: the ways by which a run's key gets to other nodes. Pure.
#pragma once

#include <functional>

#include "cxxrun/error.hpp"
#include "rendezvous/trust/grant.hpp"
#include "rendezvous/trust/key.hpp"

namespace cxxrun::rendezvous {

/// Either may block; they are used on threads of their own.
struct KeyTransports {
  bool munge = false;
  /// What every node has: read, or made when it is missing and `create`. Empty: there is nothing.
  std::function<Result<Key>(bool create)> secret;
  /// By which this process knows the run that it looks for: keys of others are not taken.
  RunNames looks_for;
  /// By which others know the run that it opens.
  RunNames opens;
};

}  // namespace cxxrun::rendezvous
