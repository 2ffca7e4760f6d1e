#include "src/os/random.hpp"

#include <cstdlib>
#include <unistd.h>

namespace cxxrun {

namespace {

void fill(void* to, std::size_t bytes) {
  if (getentropy(to, bytes) != 0) {  // at most 256 bytes at once
    std::abort();                    // no kernel this program supports refuses
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
  fill(&number, sizeof number);
  return number;
}

}  // namespace cxxrun
