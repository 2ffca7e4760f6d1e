#include "launcher/view/page_request.hpp"

#include <algorithm>
#include <array>

#include "src/base/core/text.hpp"

namespace cxxrun::launcher::view {
namespace {

struct Door {
  char const* path;
  PageRoute route;
  bool is_open = false;  ///< without a token
  bool of_rank = false;  ///< wants ?rank=N
};
constexpr std::array<Door, 9> kDoors{{{"/", PageRoute::page, true},
                                      {"/healthz", PageRoute::healthz, true},
                                      {"/favicon.ico", PageRoute::icon, true},  // browsers ask without a token
                                      {"/live", PageRoute::live},
                                      {"/state", PageRoute::state},
                                      {"/events", PageRoute::events},
                                      {"/logs", PageRoute::logs, false, true},
                                      {"/stacks", PageRoute::stacks, false, true},
                                      {"/metrics", PageRoute::metrics}}};

bool has_token(PageRequest const& request, std::string_view token) {
  constexpr std::string_view kBearer = "Bearer ";
  bool const by_header = equal_in_constant_time(request.token, token);
  bool const by_bearer = request.authorization.starts_with(kBearer) &&
                         equal_in_constant_time(request.authorization.substr(kBearer.size()), token);
  return by_header || by_bearer;
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned differ = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    differ |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned>(static_cast<unsigned char>(b[i]));
  }
  return differ == 0;
}

PageVerdict judge_request(PageRequest const& request, std::string_view token) {
  constexpr std::string_view kRank = "rank=";
  if (!request.is_get) {
    return {PageRoute::refused, 405, 0};
  }
  auto const mark = request.target.find('?');
  auto const path = request.target.substr(0, mark);
  auto const query = mark == std::string_view::npos ? std::string_view() : request.target.substr(mark + 1);
  auto const* const door =
      std::find_if(kDoors.begin(), kDoors.end(), [&](Door const& each) { return path == each.path; });
  bool const is_there = door != kDoors.end();
  if (!(is_there && door->is_open) && !has_token(request, token)) {
    return {PageRoute::refused, 401, 0};
  }
  if (!is_there) {
    return {PageRoute::refused, 404, 0};
  }
  if (!door->of_rank) {
    return {door->route, 200, 0};
  }
  auto const rank = query.starts_with(kRank) ? number_in<std::uint32_t>(query.substr(kRank.size())) : std::nullopt;
  return rank ? PageVerdict{door->route, 200, *rank} : PageVerdict{PageRoute::refused, 404, 0};
}

char const* page_reason(unsigned status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 401: return "Unauthorized";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 413: return "Content Too Large";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: break;
  }
  return "Bad Request";
}

std::string page_head(unsigned status, std::string_view type, std::optional<std::size_t> length, bool keeps_alive,
                      std::string_view policy) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " " + page_reason(status) + "\r\n";
  auto const field = [&](std::string_view name, std::string_view value) {
    head.append(name).append(": ").append(value).append("\r\n");
  };
  field("Content-Type", type);
  field("Content-Security-Policy", policy);
  field("X-Content-Type-Options", "nosniff");
  field("Cache-Control", "no-store");
  field("Referrer-Policy", "no-referrer");
  field("Cross-Origin-Resource-Policy", "same-origin");
  if (status == 401) {
    field("WWW-Authenticate", "Bearer");
  }
  if (status == 405) {
    field("Allow", "GET");
  }
  if (!length) {
    field("Transfer-Encoding", "chunked");
    field("X-Accel-Buffering", "no");  // a proxy is not to hold the stream back
  } else if (status != 204) {
    field("Content-Length", std::to_string(*length));
  }
  field("Connection", keeps_alive ? "keep-alive" : "close");
  return head + "\r\n";
}

std::string page_address(std::string const& run_id, std::uint16_t port, std::string const& token,
                         std::string const& host) {
  auto const number = std::to_string(port);
  return "the page of " + printable(run_id, 60) + ":  http://127.0.0.1:" + number + "/#" + token +
         "  (Ctrl-C ends it, and not the job)\n" + "from your own machine:  ssh -N -L " + number +
         ":127.0.0.1:" + number + " " + printable(host, 100) + "  and then the same address\n";
}

}  // namespace cxxrun::launcher::view
