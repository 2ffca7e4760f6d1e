#include "launcher/options/option_values.hpp"

#include <csignal>

#include "tests/support/catch.hpp"

using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test
using std::chrono::milliseconds;

TEST_CASE("option_values: nnodes is N or MIN:MAX, in order", "[unit]") {
  CHECK(parse_nnodes("4").value() == NodeRange{4, 4});
  CHECK(parse_nnodes("1:65536").value() == NodeRange{1, 65536});
  CHECK(parse_nnodes("3:2").error().context == "MIN is larger than MAX; did you mean 2:3?");
  for (char const* const bad : {"", "0", "0:1", "1:2:3", ":", "1:", ":2", "-1", "1:65537", "two", "1.5"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_nnodes(bad).has_value());
  }
}

TEST_CASE("option_values: nproc is a word or a positive number", "[unit]") {
  CHECK(parse_nproc("8").value() == NprocPerNode{8U});
  CHECK(parse_nproc("auto").value() == NprocPerNode{ProcWord::automatic});
  CHECK(parse_nproc("gpu").value() == NprocPerNode{ProcWord::gpu});
  CHECK(parse_nproc("xpu").value() == NprocPerNode{ProcWord::xpu});
  CHECK(parse_nproc("cpu").value() == NprocPerNode{ProcWord::cpu});
  for (char const* const bad : {"0", "-1", "npu", "GPU", "4097", "a100", "a100:", ":4", "4,", "4096,1", "a100:x"}) {
    CAPTURE(bad);
    CHECK(parse_nproc(bad).error().context == "auto, gpu, xpu, cpu or a number from 1 to 4096 is expected");
  }
}

TEST_CASE("option_values: nproc may be what Slurm says of GPUs", "[unit]") {
  CHECK(parse_nproc("a100:4").value() == NprocPerNode{4U});
  CHECK(parse_nproc("gpu:4").value() == NprocPerNode{4U});
  CHECK(parse_nproc("gpu:a100:4").value() == NprocPerNode{4U});
  CHECK(parse_nproc("a100:2,v100:1").value() == NprocPerNode{3U});
  CHECK(parse_nproc("").error().context.find("SLURM_GPUS_PER_NODE") != std::string::npos);
  CHECK(parse_nproc("").error().context.find("drop the option") != std::string::npos);
}

TEST_CASE("option_values: streams for all ranks, or by rank with any number of digits", "[unit]") {
  auto const by_rank = parse_streams("0:3,12:1").value();

  CHECK(parse_streams("3").value().of(77) == 3);
  CHECK(parse_streams("").value() == StreamChoice{});
  CHECK(by_rank.of(0) == 3);
  CHECK(by_rank.of(12) == 1);
  CHECK(by_rank.of(1) == 0);
  for (char const* const bad : {"4", "-1", "0:4", "0:", ":1", "0:1,", "0:1,2", "a:1", "0:1,0:2", "1,2"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_streams(bad).has_value());
  }
}

TEST_CASE("option_values: the ranks filter", "[unit]") {
  CHECK(parse_rank_list("0, 13,3").value() == std::set<std::uint32_t>{0, 3, 13});
  CHECK(parse_rank_list("").value().empty());
  CHECK_FALSE(parse_rank_list("0,,1").has_value());
  CHECK_FALSE(parse_rank_list("0-3").has_value());
}

TEST_CASE("option_values: --ranks takes ranks and ranges, and says how a range is written", "[unit]") {
  using Ranges = std::vector<RankRange>;
  CHECK(parse_rank_ranges("0, 8-15,7-7").value() == Ranges{{0, 0}, {8, 15}, {7, 7}});
  CHECK(parse_rank_ranges("268435455").value() == Ranges{{268435455, 268435455}});
  CHECK(parse_rank_ranges("").value().empty());
  for (char const* const bad : {"0,,1", "8-", "-8", "1-2-3", "a", "0:3", "268435456", "0,"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_rank_ranges(bad));
  }
  CHECK(parse_rank_ranges("15-8").error().context == "'15-8' is no range; did you mean 8-15?");
}

TEST_CASE("option_values: --log-rotate takes a size and how many full files are kept", "[unit]") {
  CHECK(parse_rotation("4096").value() == Rotation{4096, 0});
  CHECK(parse_rotation("100M").value() == Rotation{std::uint64_t{100} << 20, 0});
  CHECK(parse_rotation("4K:1").value() == Rotation{4096, 1});
  CHECK(parse_rotation("1048576G:1000000").value() == Rotation{std::uint64_t{1} << 50, 1'000'000});
  for (char const* const bad : {"", "0", "4095", "3K", "K", "10MB", "10m", "1.5G", "-1", "1048577G",
                                "99999999999999999G", "10M:", "10M:0", "10M:1000001", "10M:1:2", ":5"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_rotation(bad));
  }
}

TEST_CASE("option_values: filters are separated by commas, and a doubled one is a comma", "[unit]") {
  using Words = std::vector<std::string>;
  CHECK(parse_filters("").value().empty());
  CHECK(parse_filters("apple").value() == Words{"apple"});
  CHECK(parse_filters("apple, orange,=").value() == Words{"apple", " orange", "="});
  CHECK(parse_filters("a,,b,c").value() == Words{"a,b", "c"});
  CHECK(parse_filters(",,").value() == Words{","});
  CHECK(parse_filters(",,,a").value() == Words{",", "a"});
  for (char const* const bad : {",", "a,", ",a", ",,,"}) {
    CAPTURE(bad);
    CHECK(parse_filters(bad).error().context.starts_with("an empty word is in every line"));
  }
}

TEST_CASE("option_values: signals that end the job besides the four that always do", "[unit]") {
  CHECK(parse_stop_signals("SIGTERM,SIGINT,SIGHUP,SIGQUIT").value().empty());
  CHECK(parse_stop_signals(" SIGUSR1 , SIGTERM,SIGUSR2").value() == std::set{SIGUSR1, SIGUSR2});
  for (char const* const bad : {"", "USR1", "SIGKILL", "SIGSEGV", "10", "SIGUSR1;SIGUSR2", "SIGUSR1,", "sigterm"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_stop_signals(bad).has_value());
  }
}

TEST_CASE("option_values: rdzv_conf keeps '=' in values and refuses what is no pair", "[unit]") {
  auto const conf = parse_rdzv_conf(" a = 1 , b=c=d").value();

  CHECK(conf == std::map<std::string, std::string>{{"a", "1"}, {"b", "c=d"}});
  CHECK(parse_rdzv_conf("").value().empty());
  CHECK(parse_rdzv_conf("' a = 1 , b=c=d'").value() == conf);
  CHECK(parse_rdzv_conf("\"a=1,b=c=d\"").value() == conf);
  CHECK(parse_rdzv_conf("''").value().empty());
  CHECK_FALSE(parse_rdzv_conf("'").has_value());
  for (char const* const bad : {"a", "a=", "=1", "a=1,", "a=1,,b=2"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_rdzv_conf(bad).has_value());
  }
}

TEST_CASE("option_values: rdzv_conf keys act, or are noted, or are refused with the list", "[unit]") {
  Options options;
  options.rdzv_conf = {{"join_timeout", "7"}, {"last_call_timeout", "0.5"}, {"is_host", "YES"},
                       {"rank", "2"},         {"read_timeout", "60"},       {"store_type", "TCP"}};

  REQUIRE(apply_rdzv_conf(options).has_value());
  CHECK(options.terms.join_timeout == milliseconds(7000));
  CHECK(options.join_window == milliseconds(500));
  CHECK(options.is_host == true);
  CHECK(options.node_rank == 2U);
  CHECK(options.notes.size() == 2);

  options.rdzv_conf = {{"joint_timeout", "7"}};
  auto const message = apply_rdzv_conf(options).error().context;
  CHECK(message.starts_with(
      "unknown key 'joint_timeout'; the keys are close_timeout, heartbeat_timeout, is_host, join_"));
}

TEST_CASE("option_values: rdzv_conf values are checked even where they have no effect", "[unit]") {
  for (auto const& [key, value] : std::map<std::string, std::string>{{"join_timeout", "0"},
                                                                     {"close_timeout", "-1"},
                                                                     {"is_host", "maybe"},
                                                                     {"store_type", "file"},
                                                                     {"rank", "x"}}) {
    CAPTURE(key);
    Options options;
    options.rdzv_conf = {{key, value}};
    CHECK(apply_rdzv_conf(options).error().context.starts_with(key + "=" + value + ": "));
  }
}

TEST_CASE("option_values: seconds have a range and no unit", "[unit]") {
  CHECK(parse_seconds("30", false).value() == milliseconds(30'000));
  CHECK(parse_seconds("0.1", false).value() == milliseconds(100));
  CHECK(parse_seconds("0", true).value() == milliseconds(0));
  for (char const* const bad : {"", "0", "0.0001", "-1", "5s", "nan", "inf", "1e3", "99999999", " 1"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_seconds(bad, false).has_value());
  }
}

TEST_CASE("option_values: workers by default are the visible GPUs, else one", "[unit]") {
  CHECK(resolve_nproc(ProcWord::by_default, 4, 8, false).value() == 4);
  CHECK(resolve_nproc(ProcWord::by_default, 0, 8, false).value() == 1);
  CHECK(resolve_nproc(ProcWord::by_default, 4, 8, true).value() == 1);
  CHECK(resolve_nproc(ProcWord::automatic, 4, 8, false).value() == 4);
  CHECK(resolve_nproc(ProcWord::automatic, 0, 8, false).value() == 8);
  CHECK(resolve_nproc(ProcWord::cpu, 4, 8, false).value() == 8);
  CHECK(resolve_nproc(6U, 4, 8, false).value() == 6);
}

TEST_CASE("option_values: gpu without GPUs is an error, not one worker", "[unit]") {
  CHECK(resolve_nproc(ProcWord::xpu, 6, 8, false).value() == 6);
  CHECK(resolve_nproc(ProcWord::xpu, 0, 8, false)
            .error()
            .context.starts_with("--nproc-per-node xpu: no GPU of Intel's is visible here"));
  CHECK(
      resolve_nproc(ProcWord::gpu, 0, 8, false).error().context.starts_with("--nproc-per-node gpu: no GPU is visible"));
}

TEST_CASE("option_values: several tasks with several workers each are refused in one line", "[unit]") {
  CHECK(resolve_nproc(1U, 4, 8, true).value() == 1);
  CHECK(resolve_nproc(ProcWord::gpu, 1, 8, true).value() == 1);
  CHECK(resolve_nproc(4U, 4, 8, true).error().context ==
        "srun started several tasks on a node and --nproc-per-node asks each for 4 workers; use srun "
        "--ntasks-per-node=1, or drop --nproc-per-node for one worker per task, or give --standalone in a shell that "
        "one of them is");
}
