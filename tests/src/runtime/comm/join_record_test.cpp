#include "src/runtime/comm/join_record.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun::comm;  // NOLINT(google-build-using-namespace)
using cxxrun::Backend;
using cxxrun::Errc;
using cxxrun::Error;

namespace {

JoinRecord record_of(int rank, int world = 4) {
  JoinRecord record;
  record.library = "0.1.0";
  record.rank = rank;
  record.host = "node" + std::to_string(rank / 2 + 1);
  record.pid = 100 + rank;
  record.nonce = 0xfeed'0000'0000'0001U + static_cast<unsigned>(rank);
  record.world = world;
  record.local_rank = rank % 2;
  record.host_key = "a:b\n" + std::string(1, '\0') + record.host;
  record.cpus = cpu_bits({rank % 2});
  record.rail = {"fe80::1", 65535};
  record.segment = "cxxrun-0123";
  record.proves = true;
  record.segment_of_agent = rank % 2 == 0;
  record.backend = Backend::nccl;
  record.nccl = 22809;
  record.device = "GPU-" + std::to_string(rank);
  return record;
}

std::vector<JoinRecord> roster_of(int world) {
  std::vector<JoinRecord> roster;
  for (int rank = 0; rank < world; ++rank) {
    roster.push_back(record_of(rank, world));
  }
  return roster;
}

}  // namespace

TEST_CASE("a join record reads back as it was written, whatever bytes its names hold") {
  CHECK(decode_record(encode(record_of(3))) == record_of(3));
}

TEST_CASE("no part of a join record passes for one") {
  std::string const whole = encode(record_of(1));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK_FALSE(decode_record(whole.substr(0, size)));
  }
  CHECK_FALSE(decode_record(whole + "1:x"));
  CHECK_FALSE(decode_record("99999999999999999999:x"));
  CHECK_FALSE(decode_record("11:cxxrun-jon1:1"));
}

TEST_CASE("of a record of another protocol those fields are read that never change") {
  JoinRecord other = record_of(2);
  other.protocol = kProtocol + 1;
  other.library = "9.0.0";
  auto const read = decode_record(encode(other) + "5:added");
  REQUIRE(read);
  CHECK(describe(*read) == "rank 2 on node2 (pid 102)");
  CHECK(disagreement(record_of(0), *read) ==
        "rank 0 on node1 (pid 100) is built with libcxxrun 0.1.0 (protocol 1), but rank 2 on node2 (pid 102) with "
        "libcxxrun 9.0.0 (protocol 2); start the same build on every node");
}

TEST_CASE("a roster holds each rank once, in order, and as many as the world has") {
  CHECK(decode_roster(encode(roster_of(4))) == roster_of(4));
  CHECK_FALSE(decode_roster(""));
  auto short_of_one = roster_of(4);
  short_of_one.pop_back();
  CHECK_FALSE(decode_roster(encode(short_of_one)));
  auto swapped = roster_of(4);
  std::swap(swapped[1], swapped[2]);
  CHECK_FALSE(decode_roster(encode(swapped)));
}

TEST_CASE("ranks of one world agree on version and size") {
  CHECK_FALSE(disagreement(record_of(3), record_of(0)));
  CHECK(disagreement(record_of(3, 8), record_of(0)) ==
        "rank 3 on node2 (pid 103) has WORLD_SIZE 8, but rank 0 on node1 (pid 100) has 4; give all workers of a job "
        "the same");
  JoinRecord patched = record_of(1);
  patched.library = "0.1.1";
  CHECK(disagreement(patched, record_of(0)));
}

TEST_CASE("ranks of one world use the same backend and NCCL of one major.minor") {
  JoinRecord other = record_of(2);
  other.backend = Backend::host;
  std::string const says =
      "rank 0 on node1 (pid 100) would use NCCL on its GPU, but rank 2 on node2 (pid 102) the CPU (host backend); ask "
      "for the same on all ranks (Options::backend, CXXRUN_BACKEND)";
  CHECK(disagreement(other, record_of(0)) == says);
  CHECK(disagreement(record_of(0), other) == says);
  other = record_of(2);
  other.nccl = 22703;
  CHECK(disagreement(other, record_of(0)) ==
        "rank 2 on node2 (pid 102) has NCCL 2.27.3, but rank 0 on node1 (pid 100) has 2.28.9; install the same on "
        "every node");
  other.nccl = 22803;
  CHECK_FALSE(disagreement(other, record_of(0)));
}

TEST_CASE("two ranks on one GPU are named, unless NCCL takes them for two hosts") {
  auto roster = roster_of(4);
  CHECK_FALSE(conflict(roster));
  roster[3].device = roster[1].device;
  CHECK(conflict(roster) ==
        "rank 1 on node1 (pid 101) and rank 3 on node2 (pid 103) are on the same GPU, GPU-1; give each rank its own: "
        "LOCAL_RANK and CUDA_VISIBLE_DEVICES choose");
  roster[3].nccl_host = "r3";
  CHECK_FALSE(conflict(roster));
  roster[1].nccl_host = "r3";
  CHECK(conflict(roster));
  for (auto& record : roster) {
    record.backend = Backend::host;
  }
  CHECK_FALSE(conflict(roster));
}

TEST_CASE("ranks of several nodes are all proven to each other, or none") {
  auto roster = roster_of(4);
  for (auto& record : roster) {
    record.proves = false;
  }
  CHECK_FALSE(conflict(roster));
  roster[3].proves = true;
  CHECK(conflict(roster) ==
        "rank 0 on node1 (pid 100) has no agent that proves it to other nodes, but rank 3 on node2 (pid 103) has; "
        "start all ranks with cxxrun, and let all of them, or none, reach the socket that CXXRUN_PROVER names");
  roster[0].proves = roster[1].proves = true;
  CHECK(conflict(roster)->starts_with("rank 2 on node2 (pid 102) has no agent"));
  for (auto& record : roster) {
    record.host_key = "one";
  }
  CHECK_FALSE(conflict(roster));  // nothing goes between nodes
}

TEST_CASE("an error travels with its kind; anything else still arrives as text") {
  Error const error{Errc::in_use, "port 1: taken", 98};
  CHECK(decode_error(encode(error)) == error);
  for (char const* text : {"", "x", "1", "1:", "1:2", "99:0:x", "-1:0:x"}) {
    CHECK(decode_error(text) == Error{Errc::refused, text, 0});
  }
}

TEST_CASE("a node has enough CPUs when its ranks together may use as many as they are") {
  auto roster = roster_of(4);  // ranks 0 and 2 on CPU 0, 1 and 3 on CPU 1
  CHECK(enough_cpus(roster, {0, 1}));
  CHECK_FALSE(enough_cpus(roster, {0, 2}));
  CHECK_FALSE(enough_cpus(roster, {0, 1, 2}));
  roster[2].cpus = cpu_bits({0, 1, 2, 3, 130});
  CHECK(roster[2].cpus.size() == 33);
  CHECK(enough_cpus(roster, {0, 1, 2, 3}));
}

TEST_CASE("each node of a communicator has a segment key of its own") {
  CHECK(segment_key(7, 0) != segment_key(7, 1));
  CHECK(segment_key(7, 1) != segment_key(8, 1));
}
