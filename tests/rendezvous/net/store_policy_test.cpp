#include "rendezvous/net/store_policy.hpp"

#include "tests/support/catch.hpp"

using namespace cxxrun;              // NOLINT(google-build-using-namespace)
using namespace cxxrun::rendezvous;  // NOLINT(google-build-using-namespace)
using store::CallerQuestion;
using store::StoreAccess;
using Agents = std::set<AgentId>;

namespace {

constexpr AgentId kFirst = 1;  // its host has the store
constexpr AgentId kSecond = 2;

TcpEnd at(std::string const& address) {
  return *parse_end(address + ":40112");
}
CallerQuestion question(std::uint64_t id, std::string const& address) {
  return {id, {at(address), *parse_end("10.0.0.1:29500")}};
}
/// Two hosts with two addresses each; the agent of the first calls by loopback.
AddressBook two_hosts() {
  AddressBook book;
  book.announce(kFirst, {{"10.0.0.1", "fd00::1"}}, "127.0.0.1", "127.0.0.1");
  book.announce(kSecond, {{"10.9.0.2", "fd00::2"}}, "10.0.0.2", "10.0.0.1");
  return book;
}
std::uint32_t hosts_of(store::CallerNews const& news) {
  return std::get<store::HostsAsked>(news).hosts;
}

PortPlan planned(bool agent_store, std::uint16_t master_port, PortRange range = {}, bool elected = false) {
  Terms terms;
  terms.agent_store = agent_store;
  terms.master_port = master_port;
  return plan_ports(terms, range, elected);
}

}  // namespace

TEST_CASE("address_book: an agent is at all addresses that it tells, and where it calls from", "[unit]") {
  auto book = two_hosts();
  for (auto const* const address : {"10.9.0.2", "fd00::2", "10.0.0.2", "::ffff:10.0.0.2"}) {
    CHECK(book.at(*parse_end(
              (std::string(address).find(':') == std::string::npos ? address : "[" + std::string(address) + "]") +
              std::string(":1"))) == Agents{kSecond});
  }
  CHECK(book.at(at("10.0.0.3")).empty());
  book.announce(kSecond, {{"10.9.0.3"}}, "10.0.0.2", "10.0.0.1");
  CHECK(book.at(at("10.9.0.2")).empty());
  CHECK(book.at(at("10.9.0.3")) == Agents{kSecond});
  book.forget(kSecond);
  CHECK(book.at(at("10.9.0.3")).empty());
  CHECK(book.at(at("10.0.0.2")).empty());
}

TEST_CASE("address_book: loopback is the host of the store, if an agent is there", "[unit]") {
  auto book = two_hosts();
  CHECK(book.at(at("127.0.0.1")) == Agents{kFirst});
  CHECK(book.at(at("127.9.9.9")) == Agents{kFirst});
  book.forget(kFirst);
  CHECK(book.at(at("127.0.0.1")).empty());
  book.announce(kFirst, {{"10.0.0.1"}}, "10.0.0.1", "10.0.0.1");
  CHECK(book.at(at("127.0.0.1")) == Agents{kFirst});
}

TEST_CASE("address_book: the agents at the caller's address are asked, in as few messages as can be", "[unit]") {
  auto book = two_hosts();
  book.announce(3, {{"10.9.0.2"}}, "10.0.0.3", "10.0.0.1");  // the same address in another network
  auto const inquiry =
      inquire(book, StoreAccess::user, 7, {question(1, "10.0.0.2"), question(2, "10.9.0.2"), question(3, "10.0.0.9")});
  REQUIRE(inquiry.known.size() == 3);
  CHECK(hosts_of(inquiry.known[0]) == 1);
  CHECK(hosts_of(inquiry.known[1]) == 2);
  CHECK(hosts_of(inquiry.known[2]) == 0);
  REQUIRE(inquiry.ask.size() == 2);
  CHECK(inquiry.ask[0] == std::pair(kSecond, WhoseCalls{7, {question(1, "10.0.0.2"), question(2, "10.9.0.2")}}));
  CHECK(inquiry.ask[1] == std::pair(AgentId{3}, WhoseCalls{7, {question(2, "10.9.0.2")}}));
}

TEST_CASE("address_book: with --store-access hosts the address is enough", "[unit]") {
  auto const inquiry = inquire(two_hosts(), StoreAccess::hosts, 7,
                               {question(1, "10.0.0.2"), question(2, "10.0.0.9"), question(3, "127.0.0.1")});
  CHECK(inquiry.ask.empty());
  REQUIRE(inquiry.known.size() == 5);
  CHECK(std::get<store::OwnerFound>(inquiry.known[1]).owner.kind == store::Owner::Kind::ours);
  CHECK(hosts_of(inquiry.known[2]) == 0);
  CHECK(std::get<store::OwnerFound>(inquiry.known[4]).id == 3);
}

TEST_CASE("address_book: a crowd is asked about in messages of a bounded size, and of a bounded number of agents",
          "[unit]") {
  AddressBook book;
  for (AgentId agent = 1; agent <= kMostAsked + 10; ++agent) {
    book.announce(agent, {{"172.17.0.1"}}, "10.0.0.1", "10.0.0.1");
  }
  std::vector<CallerQuestion> crowd;
  for (std::uint64_t id = 1; id <= kMaxCalls + 1; ++id) {
    crowd.push_back(question(id, "172.17.0.1"));
  }
  auto const inquiry = inquire(book, StoreAccess::user, 7, crowd);
  CHECK(hosts_of(inquiry.known[0]) == kMostAsked);
  CHECK(inquiry.ask.size() == 2 * kMostAsked);
  for (auto const& [agent, calls] : inquiry.ask) {
    CHECK((calls.calls.size() == kMaxCalls || calls.calls.size() == 1));
  }
}

TEST_CASE(
    "ports: the store is MASTER_PORT, at a port of the kernel's choice, of the range, or the one that was demanded",
    "[unit]") {
  CHECK(planned(true, 0) == PortPlan{{0}, false, std::nullopt});
  CHECK(planned(true, 0, {4000, 4002}) == PortPlan{{4000, 4001, 4002}, false, std::nullopt});
  CHECK(planned(true, 29500) == PortPlan{{29500}, true, std::nullopt});
  CHECK(planned(true, 29500, {4000, 4002}) == PortPlan{{29500}, true, std::nullopt});
}

TEST_CASE("ports: without the agent's store the port that was demanded is rank 0's, and the store takes another one",
          "[unit]") {
  CHECK(planned(false, 0) == PortPlan{{0}, false, std::uint16_t{0}});
  CHECK(planned(false, 29500) == PortPlan{{0}, false, std::uint16_t{29500}});
  CHECK(planned(false, 29500, {4000, 4001}) == PortPlan{{4000, 4001}, false, std::uint16_t{29500}});
}

TEST_CASE("ports: a coordinator that was elected takes another port where the one that was demanded is taken",
          "[unit]") {
  CHECK(planned(true, 29500, {}, true) == PortPlan{{29500, 0}, false, std::nullopt});
  CHECK(planned(true, 0, {}, true) == planned(true, 0));
  CHECK(planned(false, 29500, {}, true) == planned(false, 29500));
}

TEST_CASE("ports: the last port of all can end a range", "[unit]") {
  CHECK(planned(true, 0, {65535, 65535}) == PortPlan{{65535}, false, std::nullopt});
}
