// PageRequest: what a browser, or a program, may ask of the page, and what it gets. Pure and total: anybody on this
// machine may send anything. docs/use/live.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cxxrun::launcher::view {

/// What counts of a request.
struct PageRequest {
  bool is_get = true;
  std::string_view target;         ///< path and query
  std::string_view token;          ///< of X-Cxxrun-Token
  std::string_view authorization;  ///< for Prometheus, which sends no other header
};

enum class PageRoute : std::uint8_t { page, healthz, icon, live, state, events, logs, stacks, metrics, refused };

struct PageVerdict {
  PageRoute route = PageRoute::refused;
  unsigned status = 200;   ///< of HTTP
  std::uint32_t rank = 0;  ///< for logs and stacks
  bool operator==(PageVerdict const&) const = default;
};
/// The page itself says nothing of the job, so it needs no token. All else does; without one it does not show what
/// there is.
[[nodiscard]] PageVerdict judge_request(PageRequest const& request, std::string_view token);

/// Takes the same time wherever two texts of one length differ.
[[nodiscard]] bool equal_in_constant_time(std::string_view a, std::string_view b);

/// "Not Found"
[[nodiscard]] char const* page_reason(unsigned status);
/// The head of an answer. Without `length` it is a stream of chunks. `policy`: what the page may load and run.
[[nodiscard]] std::string page_head(unsigned status, std::string_view type, std::optional<std::size_t> length,
                                    bool keeps_alive, std::string_view policy);

/// The lines that are printed for people when the page is there.
[[nodiscard]] std::string page_address(std::string const& run_id, std::uint16_t port, std::string const& token,
                                       std::string const& host);

}  // namespace cxxrun::launcher::view
