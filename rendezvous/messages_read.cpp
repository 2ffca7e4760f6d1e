#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "rendezvous/message_json.hpp"

namespace cxxrun::rendezvous {
namespace {

// Arrays longer than this are not ours.
constexpr std::size_t kMaxItems = 65536;
// Longer waits than three years are not meant; the bound keeps sums with a time point from overflowing.
constexpr std::int64_t kMaxWaitMs = 100'000'000'000;

/// Reads fields of one object; remembers the first that is missing or of the wrong kind.
class Fields {
 public:
  Fields(Json const& json, std::string& problem) : json_(json), problem_(problem) {
    if (!json.is_object()) {
      complain("an object");
    }
  }

  template <class T>
  void read(char const* name, T& into) {
    Json const* const field = find(name);
    if (field == nullptr || !assign(*field, into)) {
      complain(name);
    }
  }

  template <class T>
  void read_optional(char const* name, std::optional<T>& into) {
    if (Json const* const field = find(name)) {
      T value{};
      if (assign(*field, value)) {
        into = value;
      } else {
        complain(name);
      }
    }
  }

  void read_text_if_any(char const* name, std::string& into) {
    if (Json const* const field = find(name); field != nullptr && !assign(*field, into)) {
      complain(name);
    }
  }

  [[nodiscard]] Json const& child(char const* name) {
    static Json const nothing;
    Json const* const field = find(name);
    if (field == nullptr) {
      complain(name);
      return nothing;
    }
    return *field;
  }

  void complain(char const* what) {
    if (problem_.empty()) {
      problem_ = std::string("message lacks ") + what + " or has it in the wrong form";
    }
  }

  static bool assign(Json const& from, bool& into) {
    if (!from.is_boolean()) {
      return false;
    }
    into = from.get<bool>();
    return true;
  }
  static bool assign(Json const& from, std::string& into) {
    if (!from.is_string()) {
      return false;
    }
    into = from.get_ref<std::string const&>();
    return true;
  }
  static bool assign(Json const& from, std::vector<std::string>& into) {
    if (!from.is_array() || from.size() > kMaxItems) {
      return false;
    }
    into.clear();
    return std::all_of(from.begin(), from.end(), [&](Json const& item) { return assign(item, into.emplace_back()); });
  }
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) static bool assign(Json const& from, T& into) {
    if (from.is_number_unsigned()) {
      auto const value = from.get<std::uint64_t>();
      into = static_cast<T>(value);
      return std::cmp_less_equal(value, std::numeric_limits<T>::max());
    }
    if (from.is_number_integer()) {
      auto const value = from.get<std::int64_t>();
      into = static_cast<T>(value);
      return std::in_range<T>(value);
    }
    return false;
  }

 private:
  [[nodiscard]] Json const* find(char const* name) const {
    if (!json_.is_object()) {
      return nullptr;
    }
    auto const it = json_.find(name);
    return it == json_.end() ? nullptr : &*it;
  }

  Json const& json_;
  std::string& problem_;
};

void read(Json const& json, WorkerExit& exit, std::string& problem) {
  Fields fields(json, problem);
  std::string end;
  fields.read("rank", exit.rank);
  fields.read("local_rank", exit.local_rank);
  fields.read("pid", exit.pid);
  fields.read("end", end);
  fields.read("value", exit.status.value);
  fields.read("core", exit.status.core_dumped);
  fields.read("ours", exit.ours);
  fields.read("wall_ms", exit.wall_ms);
  fields.read_text_if_any("stderr", exit.stderr_tail);
  fields.read_text_if_any("error_file", exit.error_file);
  for (auto const kind : {ExitStatus::Kind::exited, ExitStatus::Kind::signalled, ExitStatus::Kind::not_started}) {
    if (end == name_of(kind)) {
      exit.status.kind = kind;
      return;
    }
  }
  fields.complain("end");
}

void read(Json const& json, NodeInfo& node, std::string& problem) {
  Fields fields(json, problem);
  fields.read_optional("node_index", node.node_index);
  fields.read("incarnation", node.incarnation);
  fields.read("host", node.host);
  fields.read("slots", node.slots);
  fields.read("role", node.role);
  fields.read("hosts", node.hosts);
  fields.read("announce", node.announce);
  fields.read("standby_port", node.standby_port);
  if (node.slots == 0 || node.slots > kMaxItems) {
    fields.complain("slots");
  }
}

void read_wait(Fields& fields, char const* name, Millis& into) {
  std::int64_t ms = 0;
  fields.read(name, ms);
  if (ms < 0 || ms > kMaxWaitMs) {
    fields.complain(name);
  }
  into = Millis(ms);
}

void read_tie(Fields& fields, Tie& into) {
  std::string tie;
  fields.read("tie", tie);
  for (Tie const each : {Tie::rank, Tie::fence, Tie::none}) {
    if (tie == name_of(each)) {
      into = each;
      return;
    }
  }
  fields.complain("tie");
}

void read_ballot(Fields& fields, char const* name, Ballot& into) {
  Json const& pair = fields.child(name);
  if (!pair.is_array() || pair.size() != 2 || !Fields::assign(pair[0], into.round) ||
      !Fields::assign(pair[1], into.rank)) {
    fields.complain(name);
  }
}

void read(Json const& json, Decree& decree, std::string& problem) {
  Fields fields(json, problem);
  fields.read("after", decree.after);
  fields.read("number", decree.number);
  fields.read("size", decree.size);
  fields.read("coordinator", decree.coordinator);
  fields.read("restarts", decree.restarts);
  fields.read("members", decree.members);
  read_tie(fields, decree.tie);
  if (decree.size > kMaxItems) {
    fields.complain("size");
  }
}

void read(Json const& json, std::vector<Successor>& successors, std::string& problem) {
  if (!json.is_array() || json.size() > kMaxSuccessors) {
    Fields(json, problem).complain("successors");
    return;
  }
  successors.clear();
  for (auto const& item : json) {
    Fields fields(item, problem);
    auto& each = successors.emplace_back();
    fields.read("rank", each.rank);
    fields.read("host", each.host);
    fields.read("address", each.address);
    fields.read("port", each.port);
  }
}

void read(Json const& json, Terms& terms, std::string& problem) {
  Fields fields(json, problem);
  auto const wait = [&](char const* name, Millis& into) { read_wait(fields, name, into); };
  fields.read("min_nodes", terms.min_nodes);
  fields.read("max_nodes", terms.max_nodes);
  fields.read_optional("expected_nodes", terms.expected_nodes);
  fields.read("max_restarts", terms.max_restarts);
  wait("join_window_ms", terms.join_window);
  wait("rejoin_window_ms", terms.rejoin_window);
  wait("join_timeout_ms", terms.join_timeout);
  wait("ack_timeout_ms", terms.ack_timeout);
  wait("heartbeat_timeout_ms", terms.heartbeat_timeout);
  wait("stop_timeout_ms", terms.stop_timeout);
  fields.read("agent_store", terms.agent_store);
  fields.read("master_port", terms.master_port);
  fields.read("scale_out_now", terms.scale_out_now);
  wait("restart_window_ms", terms.restart_window);
  read_tie(fields, terms.tie);
  if (terms.min_nodes == 0 || terms.max_nodes < terms.min_nodes || terms.max_nodes > kMaxItems) {
    fields.complain("max_nodes");
  }
  if (terms.expected_nodes && (*terms.expected_nodes == 0 || *terms.expected_nodes > kMaxItems)) {
    fields.complain("expected_nodes");
  }
}

void read(Json const& json, Generation& g, std::string& problem) {
  Fields fields(json, problem);
  fields.read("number", g.number);
  fields.read("restarts", g.restarts);
  fields.read("max_restarts", g.max_restarts);
  fields.read("group_rank", g.group_rank);
  fields.read("group_size", g.group_size);
  fields.read("rank_base", g.rank_base);
  fields.read("local_size", g.local_size);
  fields.read("world_size", g.world_size);
  fields.read("role_base", g.role_base);
  fields.read("role_size", g.role_size);
  fields.read("master_addr", g.master_addr);
  fields.read("master_port", g.master_port);
  fields.read("store_port", g.store_port);
  fields.read("survives", g.survives);
  fields.read("coordinator", g.coordinator);
  read(fields.child("decree"), g.decree, problem);
  read(fields.child("successors"), g.successors, problem);
  fields.read_text_if_any("hosts", g.hosts);
  fields.read_text_if_any("local_sizes", g.local_sizes);
  if (g.hosts.size() > kMaxHostsText) {
    fields.complain("hosts");
  }
  if (g.local_sizes.size() > kMaxSizesText) {
    fields.complain("local_sizes");
  }
}

void read_election(Json const& json, std::string const& type, std::string& problem, ToCoordinator& out) {
  Fields fields(json, problem);
  if (type == "elector") {
    Elector elector;
    read(fields.child("node"), elector.node, problem);
    read(fields.child("decided"), elector.decided, problem);
    fields.read_optional("rank", elector.rank);
    fields.read("prepared", elector.prepared);
    fields.read_optional("prepared_rank", elector.prepared_rank);
    fields.read("seen", elector.seen);
    fields.read("workers", elector.workers);
    out = std::move(elector);
  } else if (type == "vote") {
    Vote vote;
    fields.read("after", vote.after);
    read_ballot(fields, "ballot", vote.ballot);
    read_ballot(fields, "promised", vote.promised);
    read_wait(fields, "silent_for_ms", vote.silent_for);
    if (json.is_object() && json.contains("accepted_decree")) {
      auto& accepted = vote.accepted.emplace();
      read_ballot(fields, "accepted_ballot", accepted.ballot);
      read(fields.child("accepted_decree"), accepted.decree, problem);
    }
    out = std::move(vote);
  } else {
    Accepted accepted;
    fields.read("after", accepted.after);
    read_ballot(fields, "ballot", accepted.ballot);
    read_ballot(fields, "promised", accepted.promised);
    out = accepted;
  }
}

/// Parses the text and hands its type and object to `build`; any complaint becomes the Error.
template <class Message, class Build>
Result<Message> decode(std::string_view text, Build build) {
  Json const json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    return fail(Errc::protocol, "message is not JSON");
  }
  std::string problem;
  Message message{};
  {
    Fields fields(json, problem);
    build(json, fields, problem, message);
  }
  if (!problem.empty()) {
    return fail(Errc::protocol, std::move(problem));
  }
  return message;
}

}  // namespace

Result<Hello> decode_hello(std::string_view text) {
  return decode<Hello>(text, [](Json const&, Fields& fields, std::string&, Hello& hello) {
    std::string magic;
    std::string purpose;
    std::string asks;
    fields.read("hello", magic);
    fields.read("version", hello.version);
    if (magic != "cxxrun") {
      fields.complain("hello");
    }
    if (hello.version != kProtocolVersion) {
      return;  // the rest may differ; the caller refuses by version
    }
    fields.read("run_id", hello.run_id);
    fields.read("nonce", hello.nonce);
    fields.read("purpose", purpose);
    fields.read("asks", asks);
    constexpr std::array kPurposes{Hello::Purpose::agent, Hello::Purpose::beat, Hello::Purpose::will};
    auto const* const meant =
        std::find_if(kPurposes.begin(), kPurposes.end(), [&](auto const each) { return purpose == name_of(each); });
    if (meant == kPurposes.end()) {
      fields.complain("purpose");
      return;
    }
    hello.purpose = *meant;
    using Asks = Hello::Asks;
    for (Asks const each : {Asks::meet, Asks::open, Asks::reopen, Asks::enter, Asks::follow}) {
      if (asks == name_of(each)) {
        hello.asks = each;
        return;
      }
    }
    fields.complain("asks");
  });
}

Result<HelloReply> decode_hello_reply(std::string_view text) {
  return decode<HelloReply>(text, [](Json const&, Fields& fields, std::string&, HelloReply& reply) {
    std::string magic;
    std::string answer;
    fields.read("hello", magic);
    fields.read("version", reply.version);
    fields.read("coordinator", reply.coordinator);
    if (reply.version == kProtocolVersion) {
      fields.read("run_id", reply.run_id);
      read_wait(fields, "heartbeat_timeout_ms", reply.heartbeat_timeout);
    }
    fields.read("answer", answer);
    fields.read("refused", reply.refused);
    using Why = HelloReply::Why;
    for (Why const why : {Why::accepted, Why::other_job, Why::other_version}) {
      if (answer == name_of(why)) {
        reply.why = why;
        return;
      }
    }
    fields.complain("answer");
  });
}

Result<ToCoordinator> decode_to_coordinator(std::string_view text) {
  return decode<ToCoordinator>(text, [](Json const& json, Fields& fields, std::string& problem, ToCoordinator& out) {
    std::string type;
    fields.read("type", type);
    if (type == "join") {
      Join join;
      read(fields.child("node"), join.node, problem);
      if (json.is_object() && json.contains("terms")) {
        read(fields.child("terms"), join.terms.emplace(), problem);
      }
      out = std::move(join);
      return;
    }
    if (type == "leaving") {
      Leaving leaving;
      fields.read("signal", leaving.signal);
      out = leaving;
      return;
    }
    if (type == "elector" || type == "vote" || type == "accepted") {
      read_election(json, type, problem, out);
      return;
    }
    std::uint64_t number = 0;
    fields.read("generation", number);
    if (type == "ack") {
      Ack ack{number};
      fields.read("echo", ack.echo);
      fields.read("sent", ack.sent);
      out = ack;
    } else if (type == "gone") {
      Gone gone{number};
      fields.read("group_rank", gone.group_rank);
      out = gone;
    } else if (type == "succeeded") {
      out = Succeeded{number};
    } else if (type == "unfit") {
      Unfit unfit{number, {}};
      fields.read("why", unfit.why);
      out = std::move(unfit);
    } else if (type == "worker_failed") {
      WorkerFailed failed{number, {}};
      read(fields.child("exit"), failed.exit, problem);
      out = std::move(failed);
    } else if (type == "stopped") {
      Stopped stopped{number, {}, {}};
      Json const& exits = fields.child("exits");
      if (!exits.is_array() || exits.size() > kMaxItems) {
        fields.complain("exits");
      } else {
        for (auto const& exit : exits) {
          read(exit, stopped.exits.emplace_back(), problem);
        }
      }
      fields.read("unkillable", stopped.unkillable);
      out = std::move(stopped);
    } else {
      fields.complain("type");
    }
  });
}

Result<ToAgent> decode_to_agent(std::string_view text) {
  return decode<ToAgent>(text, [](Json const&, Fields& fields, std::string& problem, ToAgent& out) {
    std::string type;
    fields.read("type", type);
    if (type == "generation") {
      Prepare prepare;
      read(fields.child("generation"), prepare.generation, problem);
      fields.read("sent", prepare.sent);
      out = std::move(prepare);
    } else if (type == "start") {
      Start start;
      fields.read("generation", start.number);
      fields.read("echo", start.echo);
      read_wait(fields, "left_ms", start.left);
      out = start;
    } else if (type == "vote?") {
      VoteRequest request;
      fields.read("after", request.after);
      read_ballot(fields, "ballot", request.ballot);
      out = request;
    } else if (type == "propose") {
      Propose propose;
      read_ballot(fields, "ballot", propose.ballot);
      read(fields.child("decree"), propose.decree, problem);
      out = propose;
    } else if (type == "decided") {
      Decided decided;
      read(fields.child("decree"), decided.decree, problem);
      read(fields.child("successors"), decided.successors, problem);
      out = std::move(decided);
    } else if (type == "dropped") {
      Dropped dropped;
      fields.read("generation", dropped.number);
      fields.read("why", dropped.why);
      out = std::move(dropped);
    } else if (type == "stop") {
      Stop stop;
      std::string kind;
      fields.read("generation", stop.number);
      fields.read("kind", kind);
      fields.read("why", stop.why);
      stop.kind = kind == "user" ? StopKind::user : kind == "resize" ? StopKind::resize : StopKind::failure;
      out = std::move(stop);
    } else if (type == "finished") {
      Finished finished;
      fields.read("exit_code", finished.exit_code);
      fields.read("line", finished.line);
      out = std::move(finished);
    } else if (type == "refused") {
      Refused refused;
      fields.read("exit_code", refused.exit_code);
      fields.read("why", refused.why);
      out = std::move(refused);
    } else {
      fields.complain("type");
    }
  });
}

}  // namespace cxxrun::rendezvous
