// Random names: nonces and run ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cxxrun {

/// `digits` hexadecimal digits from the kernel's random source. Never blocks after boot.
[[nodiscard]] std::string random_hex(std::size_t digits);
/// 64 bits from the same source.
[[nodiscard]] std::uint64_t random_number();

}  // namespace cxxrun
