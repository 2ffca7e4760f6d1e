// Keys and nonces for tests. All bytes are the same, so that a failure is easy to read.
#pragma once

#include "rendezvous/trust/handshake.hpp"

namespace cxxrun::test {

inline rendezvous::Key key_of(unsigned char byte) {
  rendezvous::Key::Bytes bytes{};
  bytes.fill(byte);
  return rendezvous::Key(bytes);
}

inline rendezvous::Nonce nonce_of(unsigned char byte) {
  rendezvous::Nonce nonce{};
  nonce.fill(byte);
  return nonce;
}

}  // namespace cxxrun::test
