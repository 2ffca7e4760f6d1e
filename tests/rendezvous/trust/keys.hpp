// Keys and random numbers of tests: every byte the same, so that a failure reads well.
#pragma once

#include "rendezvous/trust/handshake.hpp"

namespace cxxrun::test {

inline rendezvous::Key key_of(unsigned char byte) {
  rendezvous::Key::Bytes bytes{};
  bytes.fill(byte);
  return rendezvous::Key(bytes);
}

inline rendezvous::Fresh fresh_of(unsigned char byte) {
  rendezvous::Fresh fresh{};
  fresh.fill(byte);
  return fresh;
}

}  // namespace cxxrun::test
