// Whether a sanitizer looks on: then everything takes many times as long, and looking on is the point.
#pragma once

namespace cxxrun::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace cxxrun::test
