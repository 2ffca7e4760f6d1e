#include "launcher/facts/discovery.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::launcher;  // NOLINT(google-build-using-namespace): the unit under test

namespace {

Discovery some(std::string const& run_id = "") {
  Discovery discovery;
  discovery.job = "12";
  discovery.restarts = 1;
  discovery.run_id = run_id;
  discovery.addresses = {"node1", "10.0.0.1"};
  discovery.port = 20123;
  discovery.nonce = "abc";
  discovery.host = "node1";
  discovery.pid = 4711;
  discovery.path = "/d/lab-12";
  return discovery;
}

Environment const kJob{{"SLURM_JOB_ID", "12"}, {"SLURM_CLUSTER_NAME", "lab"}, {"HOME", "/home/u"}};

}  // namespace

TEST_CASE("discovery: what is written is what is read", "[unit]") {
  auto elected = some("12.0");
  elected.elected = {7, 3, 2};
  for (auto const& discovery : {some(), some("12.0.1"), elected}) {
    auto const back = parse_discovery(discovery_text(discovery), "/d/lab-12");
    REQUIRE(back);
    CHECK(*back == discovery);
  }
}

TEST_CASE("discovery: anything else is refused by its name", "[unit]") {
  std::string const good = discovery_text(some());
  for (std::size_t length = 0; length + 2 < good.size(); ++length) {
    CHECK_FALSE(parse_discovery(good.substr(0, length), "p"));
  }
  std::vector<std::string> const bad{
      "", "[]", "null", "{}", "{\"cxxrun_rendezvous\":2}", std::string(20000, ' ') + good, std::string(1000, '[')};
  for (auto const& text : bad) {
    auto const refused = parse_discovery(text, "/d/lab-12");
    REQUIRE_FALSE(refused);
    CHECK(refused.error().context.starts_with("/d/lab-12 is no discovery file of cxxrun ("));
  }
  for (auto const& [from, to] : std::vector<std::pair<std::string, std::string>>{{"20123", "70000"},
                                                                                 {"20123", "0"},
                                                                                 {"20123", "-1"},
                                                                                 {"4711", "\"x\""},
                                                                                 {"\"node1\",", "7,"},
                                                                                 {"elected", "chosen"}}) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    CHECK_FALSE(parse_discovery(text, "p"));
  }
}

TEST_CASE("discovery: what an agent writes that was elected earlier in the run does not replace what a later one wrote",
          "[unit]") {
  auto const of = [](std::uint64_t generation, std::uint64_t round, std::uint64_t rank) {
    auto discovery = some("12.0");
    discovery.key = "k";
    discovery.elected = {generation, round, rank};
    return discovery;
  };
  for (auto const& [earlier, later] : {std::pair(of(0, 0, 0), of(1, 2, 1)),
                                       {of(1, 2, 1), of(1, 3, 0)},
                                       {of(1, 2, 1), of(1, 2, 2)},
                                       {of(1, 9, 9), of(2, 2, 0)}}) {
    CHECK(supersedes(later, earlier));
    CHECK_FALSE(supersedes(earlier, later));
    CHECK_FALSE(supersedes(later, later));
    auto of_another_run = later;
    of_another_run.run_id = "12.1";
    CHECK_FALSE(supersedes(of_another_run, earlier));
    auto of_an_older_job = later;  // that had the same number
    of_an_older_job.key = "other";
    CHECK_FALSE(supersedes(of_an_older_job, earlier));
    of_an_older_job = later;
    of_an_older_job.restarts = 0;
    CHECK_FALSE(supersedes(of_an_older_job, earlier));
  }
  auto first = of(0, 0, 0);
  auto left_behind = of(1, 2, 1);
  first.key = left_behind.key = "";  // --auth none: an agent that was not elected starts the run
  CHECK_FALSE(supersedes(left_behind, first));
}

TEST_CASE("discovery: the file of a job is named after cluster, job and step", "[unit]") {
  CHECK(discovery_dir(kJob) == "/home/u/.cxxrun/rendezvous");
  CHECK(discovery_dir({{"HOME", "/home/u"}, {"CXXRUN_DISCOVERY_DIR", "/d"}}) == "/d");
  CHECK(discovery_dir({}).empty());
  CHECK(discovery_name(kJob) == "lab-12");
  CHECK(discovery_name(kJob, "3") == "lab-12.3");
  CHECK(discovery_name({{"SLURM_JOB_ID", "12"}}) == "slurm-12");
  CHECK(discovery_name({{"SLURM_JOB_ID", "12"}, {"SLURM_CLUSTER_NAME", "../x"}}) == ".._x-12");
  CHECK(discovery_name({{"SLURM_JOB_ID", "../12"}}).empty());
  CHECK(discovery_name({}).empty());
}

TEST_CASE("discovery: a target is a job or one of its steps", "[unit]") {
  CHECK(*parse_join_target("12") == JoinTarget{"12", ""});
  CHECK(*parse_join_target("12.0") == JoinTarget{"12", "0"});
  for (char const* const wrong : {"", "x", "12_4", "12.0.1", "12.", ".1", "12+1", "-1"}) {
    CHECK_FALSE(parse_join_target(wrong));
  }
}

TEST_CASE("discovery: only files of that job, and of that step when one is named, lead to it", "[unit]") {
  JoinTarget const job{"12", ""};
  JoinTarget const step{"12", "1"};
  for (char const* const name : {"lab-12", "lab-12.0", "lab-12.1"}) {
    CHECK(may_lead_to(name, job, kJob));
  }
  for (char const* const name : {"lab-1", "lab-120", "other-12", ".lab-12.abc", "12", "lab-", ""}) {
    CHECK_FALSE(may_lead_to(name, job, kJob));
  }
  CHECK(may_lead_to("lab-12", step, kJob));
  CHECK(may_lead_to("lab-12.1", step, kJob));
  CHECK_FALSE(may_lead_to("lab-12.0", step, kJob));
  CHECK(may_lead_to("any-12", job, {}));
}

TEST_CASE("discovery: the rendezvous of a job goes before those of its steps, and one of several is not guessed",
          "[unit]") {
  JoinTarget const job{"12", ""};
  CHECK(choose_discovery({some("12.0"), some()}, job, "/d")->run_id.empty());
  CHECK(choose_discovery({some("12.0")}, job, "/d")->run_id == "12.0");
  CHECK(choose_discovery({some()}, {"12", "3"}, "/d")->run_id == "12.3.1");

  auto const several = choose_discovery({some("12.0"), some("12.1")}, job, "/d");
  REQUIRE_FALSE(several);
  CHECK(several.error().context == "--join 12: it could be 12.0 or 12.1; say which with --join JOBID.STEP");
  auto const none = choose_discovery({}, job, "/d");
  REQUIRE_FALSE(none);
  CHECK(none.error().code == Errc::closed);
  CHECK(none.error().context.find("looked in /d") != std::string::npos);
}

TEST_CASE("discovery: a file from before the job was requeued is not used", "[unit]") {
  Environment requeued = kJob;
  CHECK_FALSE(of_this_run_of_the_job(some(), requeued));
  requeued["SLURM_RESTART_COUNT"] = "1";
  CHECK(of_this_run_of_the_job(some(), requeued));
  CHECK_FALSE(of_this_run_of_the_job(std::nullopt, requeued));
}
