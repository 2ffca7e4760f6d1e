// Whether a sanitizer looks on: then everything takes many times as long, and looking on is the point.
#pragma once

namespace cxxrun::test {

#ifdef CXXRUN_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace cxxrun::test
