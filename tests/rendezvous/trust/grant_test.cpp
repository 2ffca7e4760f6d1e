#include "rendezvous/trust/grant.hpp"

#include "tests/rendezvous/trust/keys.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using cxxrun::test::key_of;

namespace {

CallId const kMine = id_of_call("mine");

std::string why(Grant const& grant, RunNames const& runs, CallId const& call = kMine) {
  auto const key = take_key(grant, runs, call);
  return key ? "" : key.error().message();
}

}  // namespace

TEST_CASE("grant: it is read as it was written, and not when a byte of it is missing or too many", "[unit]") {
  Grant const grant{key_of(9), {"step 7.0 of big", "run train"}, {kMine, id_of_call("other")}};
  auto const bytes = write_grant(grant);
  auto const read = read_grant(bytes);
  REQUIRE(read);
  CHECK(read->key == grant.key);
  CHECK(read->runs == grant.runs);
  CHECK(read->calls == grant.calls);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CHECK_FALSE(read_grant(bytes.substr(0, size)));
  }
  CHECK_FALSE(read_grant(bytes + "x"));
  CHECK_FALSE(read_grant(std::string(1000, '\xff')));
}

TEST_CASE("grant: a key is taken by who looks for its run under one of its names, and by nobody else", "[unit]") {
  Grant const grant{key_of(9), {"step 7.0 of big", "run train"}, {kMine}};
  CHECK(*take_key(grant, {"step 7.0 of big"}, kMine) == key_of(9));
  CHECK(why(grant, {"job 7", "run train"}).empty());
  for (RunNames const& others :
       {RunNames{"step 7.1 of big"}, RunNames{"step 7.0.1 of big"}, RunNames{"step 7.0 of small"}, RunNames{"step 7.0"},
        RunNames{"run train2", "job 7"}, RunNames{}}) {
    CHECK(is_of_another_run(why(grant, others)));
  }
  CHECK(why(grant, {"run other"}) == "this is step 7.0 of big, not run other");
}

TEST_CASE("grant: a key that was wrapped for another call is not taken, though it is of the right run", "[unit]") {
  Grant const grant{key_of(9), {"run train"}, {id_of_call("of yesterday")}};
  CHECK(why(grant, {"run train"}) == "it replays an answer to another connection");
  CHECK_FALSE(is_of_another_run(why(grant, {"run train"})));
  CHECK_FALSE(why({key_of(9), {"run train"}, {}}, {"run train"}).empty());
}

TEST_CASE("grant: runs without a name are known to each other alone", "[unit]") {
  CHECK(why({key_of(9), {}, {kMine}}, {}).empty());
  CHECK_FALSE(why({key_of(9), {}, {kMine}}, {"run train"}).empty());
  CHECK_FALSE(why({key_of(9), {"run train"}, {kMine}}, {}).empty());
}

TEST_CASE("grant: long names that differ at their ends are different ones, and the longest grant goes into a frame",
          "[unit]") {
  std::string const name(5000, 'n');
  Grant grant{key_of(9), {name + "1"}, {kMine}};
  auto const read = *read_grant(write_grant(grant));
  CHECK(why(read, {name + "1"}).empty());
  CHECK(is_of_another_run(why(read, {name + "2"})));
  grant.runs.assign(kMostNames, name);
  grant.calls.assign(kMostCalls, kMine);
  auto const longest = write_grant(grant).size();
  CHECK(longest * 4 / 3 + longest + 500 < kMostWrapped);  // one wrap by MUNGE and one under a secret fit an answer
}
