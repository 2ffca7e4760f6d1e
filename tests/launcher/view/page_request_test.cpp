#include "launcher/view/page_request.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher::view;  // NOLINT(google-build-using-namespace)

namespace {

constexpr char const* kToken = "0123456789abcdef0123456789abcdef";

PageVerdict judged(std::string_view target, std::string_view token = kToken, std::string_view authorization = "",
                   bool is_get = true) {
  return judge_request({is_get, target, token, authorization}, kToken);
}
unsigned status(std::string_view target, std::string_view token = kToken, std::string_view authorization = "",
                bool is_get = true) {
  return judged(target, token, authorization, is_get).status;
}

}  // namespace

TEST_CASE("page: what says nothing of the job is open, and nothing else is") {
  CHECK(judged("/", "") == PageVerdict{PageRoute::page, 200, 0});
  CHECK(judged("/healthz", "") == PageVerdict{PageRoute::healthz, 200, 0});
  CHECK(judged("/favicon.ico", "") == PageVerdict{PageRoute::icon, 200, 0});
  for (auto const* const target : {"/live", "/state", "/events", "/logs?rank=1", "/stacks?rank=1", "/metrics"}) {
    CHECK(status(target) == 200);
    for (std::string const token : {"", "0", "0123456789abcdef0123456789abcdee", "0123456789abcdef0123456789abcdef0",
                                    "1123456789abcdef0123456789abcdef"}) {
      CHECK(judged(target, token) == PageVerdict{PageRoute::refused, 401, 0});
    }
  }
}

TEST_CASE("page: Prometheus gives the token in the header that it has") {
  std::string const token = kToken;
  CHECK(status("/metrics", "", "Bearer " + token) == 200);
  CHECK(status("/metrics", "", token) == 401);
  CHECK(status("/metrics", "", "Basic " + token) == 401);
  CHECK(status("/metrics", "", "Bearer ") == 401);
  CHECK(status("/metrics", "wrong", "Bearer " + token) == 200);
}

TEST_CASE("page: nothing is changed, and what is not there is told of to nobody without the token") {
  CHECK(status("/", kToken, "", false) == 405);
  CHECK(status("/live", "", "", false) == 405);
  for (auto const* const target :
       {"/secret", "", "//", "/live/", "/LIVE", "http://127.0.0.1/", "/../live", "/%6cive"}) {
    CHECK(status(target) == 404);
    CHECK(status(target, "") == 401);
  }
}

TEST_CASE("page: a rank is a number") {
  CHECK(judged("/logs?rank=4294967295") == PageVerdict{PageRoute::logs, 200, 4'294'967'295});
  CHECK(judged("/stacks?rank=7").rank == 7);
  for (auto const* const query : {"", "?", "?rank", "?rank=", "?rank=-1", "?rank=4294967296", "?rank=1&rank=2",
                                  "?rank=1 ", "?x=1", "?rank=../1"}) {
    CHECK(status(std::string("/logs") + query) == 404);
  }
  CHECK(status("/state?whatever") == 200);
}

TEST_CASE("page: two texts are equal only as a whole") {
  CHECK(equal_in_constant_time("", ""));
  CHECK(equal_in_constant_time("ab", "ab"));
  CHECK_FALSE(equal_in_constant_time("ab", "abc"));
  CHECK_FALSE(equal_in_constant_time("abc", "ab"));
  CHECK_FALSE(equal_in_constant_time("\x80", std::string_view("\0", 1)));
}

TEST_CASE("page: no answer is kept, guessed at, framed, or told of to others") {
  auto const head = page_head(200, "text/plain", 3, true, "default-src 'none'");
  CHECK(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"));
  CHECK(head.ends_with("\r\n\r\n"));
  for (auto const* const field : {"Content-Security-Policy: default-src 'none'", "X-Content-Type-Options: nosniff",
                                  "Cache-Control: no-store", "Referrer-Policy: no-referrer", "Content-Length: 3"}) {
    CHECK(head.find(std::string("\r\n") + field + "\r\n") != std::string::npos);
  }
  CHECK(head.find("Access-Control") == std::string::npos);
  CHECK(page_head(401, "", 0, false, "").find("\r\nWWW-Authenticate: Bearer\r\n") != std::string::npos);
  CHECK(page_head(405, "", 0, false, "").find("\r\nAllow: GET\r\n") != std::string::npos);
  CHECK(page_head(204, "", 0, false, "").find("Content-Length") == std::string::npos);
  auto const stream = page_head(200, "text/event-stream", {}, false, "");
  CHECK(stream.find("\r\nTransfer-Encoding: chunked\r\n") != std::string::npos);
  CHECK(stream.find("Content-Length") == std::string::npos);
}

TEST_CASE("page: its address is printed as a browser takes it, and as ssh does") {
  CHECK(page_address("47\n11", 41'873, "4f1c", "login3") ==
        "the page of 47?11:  http://127.0.0.1:41873/#4f1c  (Ctrl-C ends it, and not the job)\n"
        "from your own machine:  ssh -N -L 41873:127.0.0.1:41873 login3  and then the same address\n");
}
