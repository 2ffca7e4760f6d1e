#include "launcher/workers/left_behind.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace)
using namespace std::string_literals;

TEST_CASE("left_behind: one line names the processes, and the rank where it is known of all", "[unit]") {
  CHECK(killed_line({{4711, "wandb-service", 1}, {4712, "sh", 1}}) ==
        "killed 2 processes that rank 1 had left: wandb-service (4711), sh (4712); a worker has to wait for what it "
        "starts");
  CHECK(killed_line({{1, "a", 0}, {2, "b", 1}, {3, "c", 2}, {4, "d", 2}, {5, "e", 7}, {6, "f", 7}}) ==
        "killed 6 processes that ranks 0-2,7 had left: a (1), b (2), c (3), d (4) and 2 more; a worker has to wait for "
        "what "
        "it starts");
  CHECK(killed_line({{1, "a", std::nullopt}}).starts_with("killed 1 process that workers had left: a (1);"));
  CHECK(killed_line({{1, "a", 3}, {2, "b", std::nullopt}}).starts_with("killed 2 processes that workers had left: "));
}

TEST_CASE("left_behind: a process is named by its command line, one safe word of it being short", "[unit]") {
  CHECK(program_name("/usr/bin/python3\0-m\0upload\0"s, "python3") == "python3 -m upload");
  CHECK(program_name("wandb-service(2-77-s-33)\0"s, "python3") == "wandb-service(2-77-s-33)");
  CHECK(program_name("", "kworker") == "kworker");
  CHECK(program_name("sh\0-c\0"s + std::string(5000, 'x'), "sh").size() < 60);
  CHECK(program_name("a\n\x1b[2J\0"s, "a").find('\x1b') == std::string::npos);
}

TEST_CASE("left_behind: the rank is that of the environment, by its whole name", "[unit]") {
  CHECK(rank_in("GROUP_RANK=4\0LOCAL_RANK=1\0RANK=9\0X=1\0"s) == 9);
  CHECK_FALSE(rank_in("LOCAL_RANK=1\0"s));
  CHECK_FALSE(rank_in("RANK=x\0"s));
  CHECK_FALSE(rank_in(""));
}
