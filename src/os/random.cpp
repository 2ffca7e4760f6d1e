#include "src/os/random.hpp"

#include <cstdlib>
#include <sys/random.h>

namespace cxxrun {

std::string random_hex(std::size_t digits) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(digits, '\0');
  std::size_t have = 0;
  while (have < digits) {
    ssize_t const got = getrandom(text.data() + have, digits - have, 0);
    if (got <= 0) {
      std::abort();  // no kernel this program supports refuses
    }
    have += static_cast<std::size_t>(got);
  }
  for (char& c : text) {
    c = kDigits[static_cast<unsigned char>(c) & 0xFU];
  }
  return text;
}

}  // namespace cxxrun
