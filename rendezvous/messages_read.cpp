#include <algorithm>
#include <array>
#include <utility>

#include "rendezvous/message_fields.hpp"

namespace cxxrun::rendezvous {
namespace {

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

void read_progress(Fields& fields, std::string& problem, Progress& progress) {
  Json const& workers = fields.child("workers");
  if (!workers.is_array() || workers.size() > kMaxProgress) {
    fields.complain("workers");
    return;
  }
  for (auto const& item : workers) {
    Fields each(item, problem);
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
    } else if (type == "progress") {
      Progress progress{number, {}};
      read_progress(fields, problem, progress);
      out = std::move(progress);
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
    } else if (type == "kill") {
      Kill kill;
      fields.read("generation", kill.number);
      fields.read("rank", kill.rank);
      fields.read("entered", kill.entered);
      fields.read("why", kill.why);
      out = std::move(kill);
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
