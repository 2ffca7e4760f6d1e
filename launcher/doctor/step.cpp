#include "launcher/doctor/step.hpp"

#include <deque>
#include <map>
#include <thread>
#include <vector>

#include "cxxrun/store.hpp"
#include "launcher/doctor/findings_text.hpp"
#include "launcher/doctor/pings.hpp"
#include "launcher/doctor/seal.hpp"
#include "launcher/doctor/token.hpp"
#include "src/core/text.hpp"
#include "src/os/fd.hpp"
#include "src/os/listening.hpp"
#include "src/os/local_address.hpp"
#include "src/store/store_server.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr Millis kTogether{40'000};  // srun starts the tasks one after the other, and Python may take 20 s
constexpr Millis kToTell{15'000};    // of it, for the table: whoever is missing is waited for no longer
constexpr Millis kKnock{500};
constexpr Millis kOwn{10'000};  // at the store of this very node, which may be busy: there is no other to be tried
constexpr Millis kPause{20};
constexpr char const* kGreeting = "cxxrun-doctor";

/// The store of the table, and what keeps others from writing there.
struct Table {
  Store store;
  Seal seal;

  [[nodiscard]] Result<void> tell(std::string const& key, std::string const& text) {
    auto const closed = seal.close(text);
    return closed ? store.set(key, *closed) : fail(Errc::permission, "no proof for others: " + closed.error().context);
  }
  /// What somebody else has written there is waited away: its node writes over it.
  [[nodiscard]] Result<std::string> ask(std::string const& key, Millis patience) {
    auto const end = Clock::now() + patience;
    for (;;) {
      auto const told = store.get(key, left_until(end));
      auto opened = told ? seal.open(*told) : told.error();
      if (opened || !told || Clock::now() >= end) {
        return opened;
      }
      std::this_thread::sleep_for(kPause);
    }
  }
};

std::string key_of(char const* what, std::uint32_t index) {
  return std::string(what) + "/" + std::to_string(index);
}

/// In the working directory; whoever sees it shares that directory with the first node.
std::string token_of(Seal const& seal) {
  return ".cxxrun-doctor-" + seal.table();
}

/// On the first node. No other store than its own: another one that listens at one of the ports is passed over.
Result<Table> open_table(Meeting const& meeting, store::StoreServer& server) {
  Result<std::uint16_t> opened = fail(Errc::in_use, "no port");
  for (auto const port : meeting.ports) {
    opened = server.open(0, {port, false});
    if (opened) {
      break;
    }
  }
  if (!opened) {
    return fail(Errc::in_use, "cannot listen where the nodes are to meet: " + opened.error().message());
  }
  auto const loopback = os::loopback_addresses();
  auto store = Store::connect({loopback.empty() ? meeting.first : loopback.front(), *opened}, kOwn);
  if (!store) {
    return store.error();
  }
  Table table{*std::move(store), Seal::make(meeting.id)};
  auto const greeted = table.store.set(kGreeting, table.seal.greeting());
  return greeted ? Result<Table>(std::move(table)) : greeted.error();
}

/// Where a node of this name may have the table.
Result<std::vector<StoreAddress>> places_of(std::string const& host, std::vector<std::uint16_t> const& ports) {
  auto const found = os::resolve_within(kNaming, host, 0, SOCK_STREAM);
  if (!found) {
    return found.error();
  }
  std::vector<StoreAddress> places;
  for (auto const* each = found->get(); each != nullptr; each = each->ai_next) {
    for (auto const port : ports) {
      places.push_back({address_text(os::tcp_end_of(each->ai_addr)), port});
    }
  }
  return places;
}

/// Another program may have one of the ports: the greeting tells.
Result<Table> find_table(Meeting const& meeting, TimePoint deadline) {
  Error trouble;
  std::vector<StoreAddress> places;
  std::deque<std::string> unknown = {meeting.first};
  if (meeting.by_address && !meeting.names.empty()) {
    unknown.push_back(meeting.names.front());  // the address may be that of another node, which is to host the job
  }
  while (Clock::now() < deadline) {
    if (!unknown.empty()) {
      if (auto const found = places_of(unknown.front(), meeting.ports)) {
        places.insert(places.end(), found->begin(), found->end());
      } else {
        trouble = found.error();
      }
      if (!places.empty()) {  // else it is asked again; a name server that is down holds up nobody who has a place to
                              // call
        unknown.pop_front();
      }
    }
    for (auto const& place : places) {
      auto store = Store::connect(place, kKnock);
      auto const greeting = store ? store->get(kGreeting, kKnock) : store.error();
      auto const seal = greeting ? Seal::take(*greeting, meeting.id) : greeting.error();
      if (seal) {
        return Table{*std::move(store), *seal};
      }
      trouble = trouble.code == Errc::permission && seal.error().code != Errc::permission ? trouble : seal.error();
    }
    std::this_thread::sleep_for(kPause);
  }
  bool const answered = trouble.code == Errc::permission;
  return fail(answered ? Errc::permission : Errc::timeout,
              "the first node, " + meeting.first + (answered ? ", is not trusted: " : ", could not be reached: ") +
                  trouble.message());
}

/// "PORT NAME", as a node has told it.
Result<Callee> callee_by(std::string const& told, std::uint32_t peer) {
  auto const blank = told.find(' ');
  auto const port = number_in<std::uint16_t>(told.substr(0, blank));
  return port && blank != std::string::npos ? Result<Callee>(Callee(peer, told.substr(blank + 1), *port))
                                            : fail(Errc::protocol, "it has told no port");
}

/// Who is there first is called first, so that one that never comes, or has no name, keeps nobody from the others.
std::vector<Call> call_peers(Meeting const& meeting, Table& table, TimePoint deadline) {
  std::vector<Call> calls;
  std::map<std::uint32_t, Callee> callees;
  auto left = peers_in(meeting);
  auto const no_call = [&](std::uint32_t peer, Error const& why) {
    calls.push_back({peer, "not tried: " + why.message(), 0, 0});
    return true;
  };
  auto const call = [&](std::uint32_t peer) {
    bool const late = Clock::now() >= deadline;
    auto callee = callees.find(peer);
    auto const there = callee == callees.end() ? table.store.check({key_of("port", peer)}) : true;
    if (!there || !*there) {
      return false;
    }
    if (late) {
      return no_call(peer, fail(Errc::timeout, "the time was over"));
    }
    if (callee == callees.end()) {
      auto const told = table.ask(key_of("port", peer), kKnock);
      auto made = told ? callee_by(*told, peer) : told.error();
      if (!made) {
        return no_call(peer, made.error());
      }
      callee = callees.emplace(peer, *std::move(made)).first;
    }
    if (!callee->second.ready()) {
      return false;
    }
    calls.push_back(callee->second.call());
    return true;
  };
  for (;;) {
    bool const last = Clock::now() >= deadline;
    std::erase_if(left, call);
    if (left.empty() || last) {
      return calls;
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// The first node shows its directory, and the others look for what it shows; none does where its own hangs.
os::UniqueFd look_at_sharing(Meeting const& meeting, Table& table, os::Caretaker const& caretaker, TimePoint deadline,
                             Facts& facts) {
  bool const answers = facts.contains("fs.open_ms") || facts.contains("fs.error");
  os::UniqueFd token;
  if (meeting.index == 0) {
    token = answers ? show_token(token_of(table.seal), caretaker, facts) : os::UniqueFd();
    static_cast<void>(table.tell("token", token ? "1" : "0"));
  } else if (answers) {
    auto const shown = table.ask("token", left_until(deadline));
    if (shown && *shown == "1") {
      look_for_token(token_of(table.seal), facts);
    }
  }
  return token;
}

/// This node's part; its facts are in the store then. What others look for is there as long as what is returned.
Result<os::UniqueFd> take_part(Meeting const& meeting, Table& table, std::function<Facts()> const& look,
                               os::Caretaker const& caretaker, TimePoint deadline) {
  auto facts = look();
  auto token = look_at_sharing(meeting, table, caretaker, deadline - kToTell, facts);
  facts["table.plain"] = table.seal.plain_because();
  facts.merge(write_calls(call_peers(meeting, table, deadline - kToTell)));
  auto const told = table.tell(key_of("facts", meeting.index), write_facts(facts));
  return told ? Result<os::UniqueFd>(std::move(token)) : told.error();
}

std::vector<StepNode> collect(Meeting const& meeting, Table& table, TimePoint deadline) {
  std::vector<StepNode> nodes;
  for (std::uint32_t i = 0; i < meeting.nodes; ++i) {
    StepNode node{i < meeting.names.size() ? meeting.names[i] : "node-rank-" + std::to_string(i), false, {}, {}};
    auto const told = table.ask(key_of("facts", i), left_until(deadline));
    if (auto facts = told ? read_facts(*told) : told.error()) {
      node.came = true;
      node.calls = read_calls(*facts);
      node.facts = *std::move(facts);
      node.host = meeting.names.empty() ? value_of(node.facts, "host") : node.host;
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

Result<std::optional<std::vector<StepNode>>> meet_step(Meeting const& meeting, std::string const& own_name,
                                                       std::function<Facts()> const& look,
                                                       os::Caretaker const& caretaker) {
  auto const deadline = Clock::now() + kTogether;
  bool const first = meeting.index == 0;
  std::optional<store::StoreServer> server;
  if (first) {
    server.emplace();
  }
  auto table = first ? open_table(meeting, *server) : find_table(meeting, deadline);
  auto const answerer = table ? Answerer::start() : table.error();
  if (!answerer) {
    return answerer.error();
  }
  auto const named = table->tell(key_of("port", meeting.index), std::to_string((*answerer)->port()) + " " + own_name);
  auto const told = named ? take_part(meeting, *table, look, caretaker, deadline) : named.error();
  if (!first) {
    static_cast<void>(table->store.get("end", kTogether));  // others may call until then, or until the first one ends
    return told ? Result<std::optional<std::vector<StepNode>>>(std::nullopt) : told.error();
  }
  auto nodes = collect(meeting, *table, deadline);
  static_cast<void>(table->store.set("end", "1"));
  return std::optional(std::move(nodes));
}

}  // namespace cxxrun::launcher::doctor
