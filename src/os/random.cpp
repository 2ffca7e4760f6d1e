#include "src/os/random.hpp"

#include <cstdlib>
#include <sys/random.h>

namespace cxxrun {

namespace {

void fill(char* to, std::size_t bytes) {
  for (std::size_t have = 0; have < bytes;) {
    ssize_t const got = getrandom(to + have, bytes - have, 0);
    if (got <= 0) {
      std::abort();  // no kernel this program supports refuses
    }
    have += static_cast<std::size_t>(got);
  }
}

}  // namespace

std::string random_hex(std::size_t digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(digits, '\0');
  fill(text.data(), digits);
  for (char& c : text) {
    c = kDigits[static_cast<unsigned char>(c) & 0xFU];
  }
  return text;
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  fill(reinterpret_cast<char*>(&number), sizeof number);
  return number;
}

}  // namespace cxxrun
