#include "src/base/core/hostlist.hpp"

#include <random>

#include <climits>

#include "tests/support/catch.hpp"

using cxxrun::compress_counts;
using cxxrun::compress_hostlist;
using cxxrun::expand_counts;
using cxxrun::expand_hostlist;

namespace {

struct Recorded {
  std::string list;
  std::vector<std::string> hosts;  ///< none: it was refused
};

// Recorded from Slurm 22.05. A suffix is accepted, as in later releases.
std::vector<Recorded> const kRecorded{
    {"node1", {"node1"}},
    {"node1,node2", {"node1", "node2"}},
    {"node[1-3,07]", {"node1", "node2", "node3", "node07"}},
    {"node[01-03]", {"node01", "node02", "node03"}},
    {"node[001-003,010]", {"node001", "node002", "node003", "node010"}},
    {"node[08-11]", {"node08", "node09", "node10", "node11"}},
    {"node[9-011]", {"node9", "node10", "node11"}},
    {"node[09-11]", {"node09", "node10", "node11"}},
    {"node[1,1,2]", {"node1", "node1", "node2"}},
    {"node[3,1-2]", {"node3", "node1", "node2"}},
    {"node[1-2]-ib", {}},
    {"rack[1-2]node[1-3]", {"rack1node1", "rack1node2", "rack1node3", "rack2node1", "rack2node2", "rack2node3"}},
    {"r[0-1]c[0-1]n[0-1]", {"r0c0n0", "r0c0n1", "r1c0n0", "r1c0n1", "r0c1n0", "r0c1n1", "r1c1n0", "r1c1n1"}},
    {"a1,b[2-3],c", {"a1", "b2", "b3", "c"}},
    {"node-1-[1-2]", {"node-1-1", "node-1-2"}},
    {"1", {"1"}},
    {"[1-3]", {"1", "2", "3"}},
    {"node[0-0]", {"node0"}},
    {"node[5]", {"node5"}},
    {"node[1-3]node", {}},
    {"ip-10-0-[1-2]-[3-4]", {"ip-10-0-1-3", "ip-10-0-1-4", "ip-10-0-2-3", "ip-10-0-2-4"}},
    {"node1,,node2", {"node1", "node2"}},
    {"node1, node2", {"node1", "node2"}},
    {"node[1, 2]", {"node1", "node02"}},
    {",node1", {"node1"}},
    {"node[3-1]", {}},
    {"node[1-3", {}},
    {"node]", {"node]"}},
    {"node[]", {}},
    {"node[1-a]", {}},
    {"node[1-]", {"node1"}},
    {"node[1,]", {}},
    {"node[1--3]", {}},
    {"node[[1-3]]", {}},
    {"node[1-[2-3]]", {}},
    {"node[0x1-0x3]", {}},
    {"node{1,2}", {"node{1", "2}"}},
    {"node(1-2)", {"node(1-2)"}},
    {"node[18446744073709551614-18446744073709551615]", {}},
    {"node[1-65537]", {}},
    {"node[1-100000]", {}},
    {"Node[1-2]", {"Node1", "Node2"}},
    {"node_[1-2]", {"node_1", "node_2"}},
    {"node1 node2", {"node1", "node2"}},
};

}  // namespace

TEST_CASE("hostlist: expands every recorded list as Slurm does", "[unit]") {
  for (auto const& [list, expanded] : kRecorded) {
    CAPTURE(list);
    auto const hosts = expand_hostlist(list);
    bool const suffixed = list == "node[1-2]-ib" || list == "node[1-3]node";
    REQUIRE(hosts.has_value() == (suffixed || !expanded.empty()));
    if (hosts && !suffixed) {
      CHECK(*hosts == expanded);
    }
  }
}

TEST_CASE("hostlist: a suffix after the last bracket belongs to every host", "[unit]") {
  using Names = std::vector<std::string>;

  CHECK(expand_hostlist("node[1-2]-ib").value() == Names{"node1-ib", "node2-ib"});
  CHECK(expand_hostlist("node[1-3]node").value() == Names{"node1node", "node2node", "node3node"});
  CHECK(expand_hostlist("n[08-09].a.b,x").value() == Names{"n08.a.b", "n09.a.b", "x"});
  CHECK(expand_hostlist("r[1-2]n[1-2]s").value() == Names{"r1n1s", "r1n2s", "r2n1s", "r2n2s"});
}

TEST_CASE("hostlist: an error quotes the part that is wrong", "[unit]") {
  auto const message = [](std::string const& text) { return expand_hostlist(text).error().context; };

  CHECK(message("a1,node[1-3") == "host list: 'node[1-3': a bracket is not closed");
  CHECK(message("node[3-1]") == "host list: '3-1': the range runs backwards");
  CHECK(message("n[1-2]]") == "host list: 'n[1-2]]': a bracket is closed twice");
  CHECK(message("n[0-65536]") == "host list: '0-65536': more than 65536 hosts");
  CHECK(message("n[18446744073709551614-18446744073709551615]").ends_with("not a range of numbers"));
}

TEST_CASE("hostlist: size is bounded however the hosts are spelled", "[unit]") {
  CHECK(expand_hostlist("n[0-65535]").value().size() == cxxrun::kMaxHosts);
  CHECK_FALSE(expand_hostlist("n[0-65535],m").has_value());
  CHECK_FALSE(expand_hostlist("n[0-999]m[0-999]").has_value());
  CHECK_FALSE(expand_hostlist("a[0-65535]b[0-65535]c[0-65535]d[0-65535]e[0-65535]").has_value());
  CHECK_FALSE(expand_hostlist("[1][1][1][1][1][1][1][1][1]").has_value());
  CHECK_FALSE(expand_hostlist(std::string(256, 'n')).has_value());
  CHECK_FALSE(expand_hostlist(std::string(256, 'n') + "[1-2]").has_value());
  CHECK_FALSE(expand_hostlist("n[" + std::string(1000, '0') + "1]").has_value());
}

TEST_CASE("hostlist: every truncation and every flipped byte gives an answer", "[unit]") {
  std::string const list = "rack[1-2]node[01-03,7],login, gpu[5]";
  for (std::size_t cut = 0; cut <= list.size(); ++cut) {
    CHECK(expand_hostlist(list.substr(0, cut)).has_value() + 1 > 0);
    for (int byte = 0; byte < 256 && cut < list.size(); ++byte) {
      std::string changed = list;
      changed[cut] = static_cast<char>(byte);
      auto const hosts = expand_hostlist(changed);
      REQUIRE((!hosts || hosts->size() <= cxxrun::kMaxHosts));
    }
  }
}

TEST_CASE("hostlist: names become a list that every Slurm reads", "[unit]") {
  using Names = std::vector<std::string>;

  CHECK(compress_hostlist({}).empty());
  CHECK(compress_hostlist({"login"}) == "login");
  CHECK(compress_hostlist({"node7"}) == "node7");
  CHECK(compress_hostlist({"node1", "node2", "node3", "node07"}) == "node[1-3,07]");
  CHECK(compress_hostlist({"n08", "n09", "n10", "n100"}) == "n[08-10,100]");
  CHECK(compress_hostlist({"n9", "n10", "n011"}) == "n[9-10,011]");
  CHECK(compress_hostlist({"n3", "n1", "n1", "n2"}) == "n[3,1,1-2]");
  CHECK(compress_hostlist({"a1", "b1", "b2", "a2", "1", "2"}) == "a1,b[1-2],a2,[1-2]");
  CHECK(compress_hostlist({"r1n1-ib", "r1n2-ib"}) == "r1n1-ib,r1n2-ib");
  for (auto const& bad : {Names{""}, Names{"a,b"}, Names{"a", "b[1]"}, Names{"a b"}, Names{std::string(256, 'n')}}) {
    CHECK(compress_hostlist(bad).empty());
  }
  CHECK(compress_hostlist(Names(cxxrun::kMaxHosts + 1, "n")).empty());
}

TEST_CASE("hostlist: a compressed list expands to the same names in the same order", "[unit]") {
  std::mt19937 random(7);
  auto const below = [&random](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  std::vector<std::string> const stems{"node", "n", "rack1node", "", "ip-10-0-", "N", "x9y", "123456789012345678901"};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> names;
    while (names.size() < 1 + below(12) || names.empty()) {
      std::string const& stem = stems[below(static_cast<unsigned>(stems.size()))];
      unsigned number = below(120);
      std::size_t const width = 1 + below(4);
      for (unsigned run = below(5); run != UINT_MAX; --run) {
        std::string const digits = std::to_string(number++);
        names.push_back(stem + std::string(width > digits.size() ? width - digits.size() : 0, '0') + digits);
      }
      names.push_back("login" + std::string(below(2), 'x'));
    }
    CAPTURE(compress_hostlist(names));
    REQUIRE(expand_hostlist(compress_hostlist(names)).value() == names);
  }
}

TEST_CASE("hostlist: what was recorded survives being compressed and expanded", "[unit]") {
  for (auto const& one : kRecorded) {
    if (!compress_hostlist(one.hosts).empty()) {
      CHECK(expand_hostlist(compress_hostlist(one.hosts)).value() == one.hosts);
    }
  }
}

TEST_CASE("hostlist: counts by node become runs", "[unit]") {
  CHECK(compress_counts({}).empty());
  CHECK(compress_counts({4}) == "4");
  CHECK(compress_counts({4, 4, 2}) == "4(x2),2");
  CHECK(compress_counts({3, 1, 1}) == "3,1(x2)");
  CHECK(compress_counts(std::vector<unsigned>(10'000, 8)) == "8(x10000)");
}

TEST_CASE("hostlist: repeated counts", "[unit]") {
  CHECK(expand_counts("3,1(x2)").value() == std::vector<unsigned>{3, 1, 1});
  CHECK(expand_counts("4").value() == std::vector<unsigned>{4});
  for (char const* const bad : {"", "x", "1(x)", "1(x0)", "1(2)", "1(x2", "1(x65537)", "1(x65536),1", "-1", "1,,2"}) {
    CAPTURE(bad);
    CHECK_FALSE(expand_counts(bad).has_value());
  }
}
