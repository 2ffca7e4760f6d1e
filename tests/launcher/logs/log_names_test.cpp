#include "launcher/logs/log_names.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)

TEST_CASE("log_dir: a run id cannot leave the directory", "[unit]") {
  CHECK(path_component("job-7.0") == "job-7.0");
  CHECK(path_component("a/../b") == "a_.._b");
  CHECK(path_component("..") == "_.");
  CHECK(path_component(".hidden") == "_hidden");
  CHECK(path_component("") == "_");
  CHECK(path_component("a\nb\x7f") == "a_b_");
  CHECK(path_component(std::string(500, 'x')).size() == 200);
}

TEST_CASE("log_dir: the layout is attempt_<generation>/<local rank>", "[unit]") {
  CHECK(worker_log_dir("/l/run_host", 3, 12) == "/l/run_host/attempt_3/12");
}

TEST_CASE("left_over: only the names that cxxrun gives to this user's directories are looked at", "[unit]") {
  CHECK(is_temporary_name("cxxrun-1000-aZ09bc", 1000));
  for (auto const* other : {"cxxrun-1000-aZ09b", "cxxrun-1000-aZ09bcd", "cxxrun-1000-aZ0.bc", "cxxrun-100-aZ09bc",
                            "cxxrun-1000aZ09bcd", "xcxxrun-1000-aZ09bc", "cxxrun-1000-", "cxxrun-bench-aZ09bc", ""}) {
    CAPTURE(other);
    CHECK_FALSE(is_temporary_name(other, 1000));
  }
}

TEST_CASE("left_over: a directory stays unless all that is known of it says that nobody needs it", "[unit]") {
  FoundDir const left{.uid = 1000, .others_write = false, .marked = true, .boot = "a1b2", .held = false};
  CHECK(is_left_over(left, 1000, "a1b2"));
  CHECK_FALSE(is_left_over(left, 1001, "a1b2"));
  CHECK_FALSE(is_left_over(left, 1000, "c3d4"));  // another machine, or before a reboot
  auto const but = [&](auto change) {
    auto dir = left;
    change(dir);
    return is_left_over(dir, 1000, "a1b2");
  };
  CHECK_FALSE(but([](FoundDir& dir) { dir.others_write = true; }));
  CHECK_FALSE(but([](FoundDir& dir) { dir.marked = false; }));
  CHECK_FALSE(but([](FoundDir& dir) { dir.held = true; }));
  auto unknown = left;
  unknown.boot.clear();
  CHECK_FALSE(is_left_over(unknown, 1000, ""));  // an unknown boot proves nothing
}
