#include "launcher/doctor/step.hpp"

#include <map>
#include <thread>
#include <vector>

#include "launcher/doctor/findings_text.hpp"
#include "launcher/doctor/pings.hpp"
#include "launcher/doctor/token.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/fd.hpp"
#include "src/base/os/munge.hpp"

namespace cxxrun::launcher::doctor {
namespace {

constexpr Millis kTogether{40'000};  // srun starts the tasks one after the other, and Python may take 20 s
constexpr Millis kToTell{15'000};    // of it, for the board: whoever is missing is waited for no longer
constexpr Millis kStepPause{20};

std::string key_of(char const* what, std::uint32_t index) {
  return std::string(what) + "/" + std::to_string(index);
}

/// In the working directory; whoever sees it shares that directory with the first node.
std::string token_of(Board const& board) {
  return ".cxxrun-doctor-" + board.name();
}

/// "PORT NAME", as a node has told it.
Result<Callee> callee_by(std::string const& told, std::uint32_t peer) {
  auto const blank = told.find(' ');
  auto const port = number_in<std::uint16_t>(told.substr(0, blank));
  return port && blank != std::string::npos ? Result<Callee>(Callee(peer, told.substr(blank + 1), *port))
                                            : fail(Errc::protocol, "it has told no port");
}

/// Who is there first is called first, so that one that never comes, or has no name, keeps nobody from the others.
std::vector<Call> call_peers(Meeting const& meeting, Board& board, TimePoint deadline) {
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
    auto const told = callee == callees.end() ? board.look(key_of("port", peer)) : std::optional<std::string>("");
    if (!told) {
      return false;
    }
    if (late) {
      return no_call(peer, fail(Errc::timeout, "the time was over"));
    }
    if (callee == callees.end()) {
      auto made = callee_by(*told, peer);
      if (!made) {
        return no_call(peer, made.error());
      }
      callee = callees.emplace(peer, *std::move(made)).first;
    }
    if (!callee->second.ready()) {
      return false;
    }
    calls.push_back(callee->second.call(board.key()));
    return true;
  };
  for (;;) {
    bool const last = Clock::now() >= deadline;
    std::erase_if(left, call);
    if (left.empty() || last) {
      return calls;
    }
    std::this_thread::sleep_for(kStepPause);
  }
}

/// The first node shows its directory, and the others look for what it shows; none does where its own hangs.
os::UniqueFd look_at_sharing(Meeting const& meeting, Board& board, os::Caretaker const& caretaker, TimePoint deadline,
                             Facts& facts) {
  bool const answers = facts.contains("fs.open_ms") || facts.contains("fs.error");
  os::UniqueFd token;
  if (meeting.index == 0) {
    token = answers ? show_token(token_of(board), caretaker, facts) : os::UniqueFd();
    board.tell("token", token ? "1" : "0");
  } else if (answers) {
    auto const shown = board.ask("token", deadline);
    if (shown && *shown == "1") {
      look_for_token(token_of(board), facts);
    }
  }
  return token;
}

/// Whether a credential of the first node's can be decoded here: "" or why not.
std::string try_munge(Meeting const& meeting, Board& board, TimePoint deadline) {
  if (meeting.index == 0) {
    auto const made = os::munge_encode("doctor");  // munge_decode() takes an empty one for a failure
    board.tell("munge", made ? *made : "");
    return made ? "" : made.error().context;
  }
  auto const made = board.ask("munge", deadline);
  auto const read = made && !made->empty() ? os::munge_decode(*made) : Result<std::string>("");
  return read ? "" : read.error().context;
}

/// This node's part; its facts are on the board then. What others look for is there as long as what is returned.
os::UniqueFd take_part(Meeting const& meeting, Board& board, std::function<Facts()> const& look,
                       os::Caretaker const& caretaker, TimePoint deadline) {
  auto facts = look();
  auto token = look_at_sharing(meeting, board, caretaker, deadline - kToTell, facts);
  facts["munge.error"] = try_munge(meeting, board, deadline - kToTell);
  facts.merge(write_calls(call_peers(meeting, board, deadline - kToTell)));
  board.tell(key_of("facts", meeting.index), write_facts(facts));
  return token;
}

std::vector<StepNode> collect(Meeting const& meeting, Board& board, TimePoint deadline) {
  std::vector<StepNode> nodes;
  for (std::uint32_t i = 0; i < meeting.nodes; ++i) {
    StepNode node{i < meeting.names.size() ? meeting.names[i] : "node-rank-" + std::to_string(i), false, {}, {}};
    auto const told = board.ask(key_of("facts", i), deadline);
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

Result<std::optional<std::vector<StepNode>>> meet_step(Meeting const& meeting, Transports const& transports,
                                                       std::string const& own_name, std::function<Facts()> const& look,
                                                       os::Caretaker const& caretaker) {
  auto const deadline = Clock::now() + kTogether;
  bool const first = meeting.index == 0;
  auto const opened = first ? Board::host(meeting, transports) : Board::find(meeting, transports, deadline);
  if (!opened) {
    return opened.error();
  }
  Board& board = **opened;
  board.tell(key_of("port", meeting.index), std::to_string(board.port()) + " " + own_name);
  auto const shown = take_part(meeting, board, look, caretaker, deadline);
  if (!first) {
    static_cast<void>(board.ask("end", deadline + kToTell));  // others may call until then, or until the first one ends
    return std::optional<std::vector<StepNode>>();
  }
  auto nodes = collect(meeting, board, deadline);
  board.tell("end", "1");
  return std::optional(std::move(nodes));
}

}  // namespace cxxrun::launcher::doctor
