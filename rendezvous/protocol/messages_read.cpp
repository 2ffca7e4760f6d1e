#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "rendezvous/protocol/message_fields.hpp"

namespace cxxrun::rendezvous {
namespace {

// ---- agent to coordinator: the fields of one message each ----

void read_message(Fields& fields, Join& join) {
  read_part(fields, "node", join.node);
  if (fields.has("terms")) {
    read_part(fields, "terms", join.terms.emplace());
  }
}

void read_message(Fields& fields, Leaving& leaving) {
  fields.read("signal", leaving.signal);
}

void read_message(Fields& fields, Elector& elector) {
  read_part(fields, "node", elector.node);
  read_part(fields, "decided", elector.decided);
  fields.read_optional("rank", elector.rank);
  fields.read("prepared", elector.prepared);
  fields.read_optional("prepared_rank", elector.prepared_rank);
  fields.read("seen", elector.seen);
  fields.read("workers", elector.workers);
}

void read_message(Fields& fields, Vote& vote) {
  fields.read("after", vote.after);
  read_ballot(fields, "ballot", vote.ballot);
  read_ballot(fields, "promised", vote.promised);
  read_wait(fields, "silent_for_ms", vote.silent_for);
  if (fields.has("accepted_decree")) {
    auto& accepted = vote.accepted.emplace();
    read_ballot(fields, "accepted_ballot", accepted.ballot);
    read_part(fields, "accepted_decree", accepted.decree);
  }
}

void read_message(Fields& fields, Accepted& accepted) {
  fields.read("after", accepted.after);
  read_ballot(fields, "ballot", accepted.ballot);
  read_ballot(fields, "promised", accepted.promised);
}

void read_message(Fields& fields, Ack& ack) {
  fields.read("generation", ack.number);
  fields.read("echo", ack.echo);
  fields.read("sent", ack.sent);
}

void read_message(Fields& fields, Gone& gone) {
  fields.read("generation", gone.number);
  fields.read("group_rank", gone.group_rank);
}

void read_message(Fields& fields, Succeeded& succeeded) {
  fields.read("generation", succeeded.number);
}

void read_message(Fields& fields, Unfit& unfit) {
  fields.read("generation", unfit.number);
  fields.read("why", unfit.why);
}

void read_message(Fields& fields, Progress& progress) {
  fields.read("generation", progress.number);
  Json const& workers = fields.child("workers");
  if (!workers.is_array() || workers.size() > kMaxProgress) {
    fields.complain("workers");
    return;
  }
  for (auto const& item : workers) {
    Fields each(item, fields.problem());
    auto& worker = progress.workers.emplace_back();
    each.read("rank", worker.rank);
    each.read("entered", worker.entered);
    each.read("done", worker.done);
    each.read("what", worker.what);
    each.read("count", worker.count);
    read_wait(each, "still_ms", worker.still);
    each.read("halted", worker.halted);
  }
}

void read_message(Fields& fields, WorkerFailed& failed) {
  fields.read("generation", failed.number);
  read_part(fields, "exit", failed.exit);
}

void read_message(Fields& fields, Stopped& stopped) {
  fields.read("generation", stopped.number);
  Json const& exits = fields.child("exits");
  if (!exits.is_array() || exits.size() > kMaxItems) {
    fields.complain("exits");
  } else {
    for (auto const& exit : exits) {
      read(exit, stopped.exits.emplace_back(), fields.problem());
    }
  }
  fields.read("unkillable", stopped.unkillable);
}

// ---- coordinator to agent ----

void read_message(Fields& fields, Prepare& prepare) {
  read_part(fields, "generation", prepare.generation);
  fields.read("sent", prepare.sent);
}

void read_message(Fields& fields, Start& start) {
  fields.read("generation", start.number);
  fields.read("echo", start.echo);
  read_wait(fields, "left_ms", start.left);
}

void read_message(Fields& fields, VoteRequest& request) {
  fields.read("after", request.after);
  read_ballot(fields, "ballot", request.ballot);
}

void read_message(Fields& fields, Propose& propose) {
  read_ballot(fields, "ballot", propose.ballot);
  read_part(fields, "decree", propose.decree);
}

void read_message(Fields& fields, Decided& decided) {
  read_part(fields, "decree", decided.decree);
  read_part(fields, "successors", decided.successors);
  fields.read("leads", decided.leads);
}

void read_message(Fields& fields, Dropped& dropped) {
  fields.read("generation", dropped.number);
  fields.read("why", dropped.why);
}

void read_message(Fields& fields, Stop& stop) {
  std::string kind;
  fields.read("generation", stop.number);
  fields.read("kind", kind);
  fields.read("why", stop.why);
  stop.kind = kind == "user" ? StopKind::user : kind == "resize" ? StopKind::resize : StopKind::failure;
}

void read_message(Fields& fields, Kill& kill) {
  fields.read("generation", kill.number);
  fields.read("rank", kill.rank);
  fields.read("entered", kill.entered);
  fields.read("why", kill.why);
}

void read_message(Fields& fields, Finished& finished) {
  fields.read("exit_code", finished.exit_code);
  fields.read("line", finished.line);
}

void read_message(Fields& fields, Refused& refused) {
  fields.read("exit_code", refused.exit_code);
  fields.read("why", refused.why);
}

// ---- which message it is ----

/// A message's `type` and what reads the rest of it.
template <class Any>
struct Kind {
  std::string_view type;
  void (*read)(Fields& fields, Any& out);
};

template <class Message, class Any>
void read_as(Fields& fields, Any& out) {
  read_message(fields, out.template emplace<Message>());
}

constexpr std::array kToCoordinator{
    Kind<ToCoordinator>{"join", read_as<Join>},
    Kind<ToCoordinator>{"leaving", read_as<Leaving>},
    Kind<ToCoordinator>{"elector", read_as<Elector>},
    Kind<ToCoordinator>{"vote", read_as<Vote>},
    Kind<ToCoordinator>{"accepted", read_as<Accepted>},
    Kind<ToCoordinator>{"ack", read_as<Ack>},
    Kind<ToCoordinator>{"gone", read_as<Gone>},
    Kind<ToCoordinator>{"succeeded", read_as<Succeeded>},
    Kind<ToCoordinator>{"unfit", read_as<Unfit>},
    Kind<ToCoordinator>{"progress", read_as<Progress>},
    Kind<ToCoordinator>{"worker_failed", read_as<WorkerFailed>},
    Kind<ToCoordinator>{"stopped", read_as<Stopped>},
};
static_assert(kToCoordinator.size() == std::variant_size_v<ToCoordinator>);

constexpr std::array kToAgent{
    Kind<ToAgent>{"generation", read_as<Prepare>}, Kind<ToAgent>{"start", read_as<Start>},
    Kind<ToAgent>{"vote?", read_as<VoteRequest>},  Kind<ToAgent>{"propose", read_as<Propose>},
    Kind<ToAgent>{"decided", read_as<Decided>},    Kind<ToAgent>{"dropped", read_as<Dropped>},
    Kind<ToAgent>{"stop", read_as<Stop>},          Kind<ToAgent>{"kill", read_as<Kill>},
    Kind<ToAgent>{"finished", read_as<Finished>},  Kind<ToAgent>{"refused", read_as<Refused>},
};
static_assert(kToAgent.size() == std::variant_size_v<ToAgent>);

/// Parses the text and hands its fields to `build`; any complaint becomes the Error.
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
    build(fields, message);
  }
  if (!problem.empty()) {
    return fail(Errc::protocol, std::move(problem));
  }
  return message;
}

template <class Any, std::size_t size>
Result<Any> decode_any(std::string_view text, std::array<Kind<Any>, size> const& kinds) {
  return decode<Any>(text, [&](Fields& fields, Any& out) {
    std::string type;
    fields.read("type", type);
    auto const* const kind = std::find_if(kinds.begin(), kinds.end(), [&](auto const& k) { return k.type == type; });
    if (kind == kinds.end()) {
      fields.complain("type");
      return;
    }
    kind->read(fields, out);
  });
}

}  // namespace

Result<Hello> decode_hello(std::string_view text) {
  return decode<Hello>(text, [](Fields& fields, Hello& hello) {
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
  return decode<HelloReply>(text, [](Fields& fields, HelloReply& reply) {
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
  return decode_any(text, kToCoordinator);
}

Result<ToAgent> decode_to_agent(std::string_view text) {
  return decode_any(text, kToAgent);
}

}  // namespace cxxrun::rendezvous
