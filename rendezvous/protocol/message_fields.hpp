// The fields of every message, once for both directions: `field` is the Reader of messages_read.cpp or the Writer of
// messages_write.cpp. Private to the two.
//
//   field(name, value)               has to be there; an optional value is left out when there is none
//   field.if_known(name, value)      the same, but an unknown name of an enumeration is read as the default
//   field.when(written, name, text)  written when `written` says so; may be missing when read
//   field.list(name, values, most)   longer ones are refused, and cut when written
//   field.has(name, optional)        whether it is there; its own fields follow
//   field.knows(version)             whether this version's fields follow
//   field.require(holds, name)       refuses what was read, by this name
//
// A reader complains of the first that is wrong. On the wire the keys of an object are sorted; a beat is an array, of
// its fields in this order.
#pragma once

#include <string>
#include <tuple>

#include <nlohmann/json.hpp>

#include "rendezvous/protocol/live_messages.hpp"
#include "rendezvous/protocol/message_parts.hpp"

namespace cxxrun::rendezvous {

using Json = nlohmann::json;

// What both hellos begin with.
inline constexpr char const* kMagic = "cxxrun";

/// Which message it is, among those of its direction.
template <class Message>
struct Type {
  char const* name;
};
inline constexpr std::tuple kTypes(Type<Join>{"join"}, Type<Ack>{"ack"}, Type<WorkerFailed>{"worker_failed"},
                                   Type<Succeeded>{"succeeded"}, Type<Stopped>{"stopped"}, Type<Leaving>{"leaving"},
                                   Type<Unfit>{"unfit"}, Type<FollowerInfo>{"follower_info"}, Type<Vote>{"vote"},
                                   Type<Accepted>{"accepted"}, Type<Gone>{"gone"}, Type<Progress>{"progress"},
                                   Type<Complete>{"complete"}, Type<LeftOut>{"left_out"}, Type<Prepare>{"generation"},
                                   Type<Start>{"start"}, Type<Stop>{"stop"}, Type<Finished>{"finished"},
                                   Type<Refused>{"refused"}, Type<VoteRequest>{"vote?"}, Type<Propose>{"propose"},
                                   Type<Decided>{"decided"}, Type<Dropped>{"dropped"}, Type<Kill>{"kill"},
                                   Type<HostAddresses>{"addresses"}, Type<WhoseCalls>{"whose_calls"},
                                   Type<Owners>{"owners"}, Type<NodePulse>{"pulse"}, Type<Ask>{"ask"},
                                   Type<Told>{"told"}, Type<Pace>{"pace"});

// ---- the handshake ------------------------------------------------------------------------------

void fields(auto& field, Of<Hello> auto& hello) {
  std::string magic = kMagic;
  field("hello", magic);
  field("version", hello.version);
  field.require(magic == kMagic, "hello");
  if (field.knows(hello.version)) {  // else the rest may differ; the caller refuses by version
    field("run_id", hello.run_id);
    field("nonce", hello.nonce);
    field("purpose", hello.purpose);
    field("asks", hello.asks);
    field.when(!hello.ends.caller.empty(), "from", hello.ends.caller);
    field.when(!hello.ends.called.empty(), "to", hello.ends.called);
    field.when(!hello.local_addr.empty(), "local_addr", hello.local_addr);
  }
}
void fields(auto& field, Of<HelloReply> auto& reply) {
  std::string magic = kMagic;
  field("hello", magic);
  field("version", reply.version);
  field("coordinator", reply.coordinator);
  if (field.knows(reply.version)) {
    field("run_id", reply.run_id);
    field("terms", reply.terms);
  }
  field("answer", reply.why);
  field("refused", reply.refused);
  field.when(!reply.seen.caller.empty(), "from", reply.seen.caller);
  field.when(!reply.seen.called.empty(), "to", reply.seen.called);
}

// ---- agent to coordinator -----------------------------------------------------------------------

void fields(auto& field, Of<Join> auto& join) {
  field("node", join.node);
  field("terms", join.terms);
}
void fields(auto& field, Of<Ack> auto& ack) {
  field("generation", ack.number);
  field("echo", ack.echo);
  field("sent", ack.sent);
}
void fields(auto& field, Of<DeadSeat> auto& dead) {
  field("rank", dead.rank);
  field("known_for_ms", dead.known_for);
}
void fields(auto& field, Of<FollowerInfo> auto& follower_info) {
  field("node", follower_info.node);
  field("decided", follower_info.decided);
  field("rank", follower_info.rank);
  field("prepared", follower_info.prepared);
  field("prepared_rank", follower_info.prepared_rank);
  field("prepared_members", follower_info.prepared_members);
  field("seen", follower_info.seen);
  field("workers", follower_info.workers);
  field("begun_for_ms", follower_info.begun_for);
  field("steps", follower_info.steps);
  field.list("dead", follower_info.dead, kMaxSuccessors);
}
void fields(auto& field, Of<Vote> auto& vote) {
  field("after", vote.after);
  field("ballot", vote.ballot);
  field("promised", vote.promised);
  field("silent_for_ms", vote.silent_for);
  if (field.has("accepted_decree", vote.accepted)) {
    field("accepted_ballot", vote.accepted->ballot);
    field("accepted_decree", vote.accepted->decree);
  }
}
void fields(auto& field, Of<Accepted> auto& accepted) {
  field("after", accepted.after);
  field("ballot", accepted.ballot);
  field("promised", accepted.promised);
}
void fields(auto& field, Of<Gone> auto& gone) {
  field("generation", gone.number);
  field("group_rank", gone.group_rank);
}
void fields(auto& field, Of<WorkerFailed> auto& failed) {
  field("generation", failed.number);
  field("exit", failed.exit);
}
void fields(auto& field, Of<Succeeded> auto& succeeded) {
  field("generation", succeeded.number);
  field("steps", succeeded.steps);
}
void fields(auto& field, Of<Stopped> auto& stopped) {
  field("generation", stopped.number);
  field.list("exits", stopped.exits, kMaxItems);
  field.list("unkillable", stopped.unkillable, kMaxItems);
  field("steps", stopped.steps);
  field("lacks", stopped.lacks);
}
void fields(auto& field, Of<Complete> auto& complete) {
  field("generation", complete.number);
}
void fields(auto& field, Of<Leaving> auto& leaving) {
  field("signal", leaving.signal);
  field.when(!leaving.from.empty(), "from", leaving.from);
}
void fields(auto& field, Of<Unfit> auto& unfit) {
  field("generation", unfit.number);
  field("why", unfit.why);
}
void fields(auto& field, Of<Progress> auto& progress) {
  field("generation", progress.number);
  field.list("workers", progress.workers, kMaxProgress);
  field.list("named", progress.named, kMaxProgress);
  field.list("left", progress.left, kMaxWorkers);
}

// ---- coordinator to agent -----------------------------------------------------------------------

void fields(auto& field, Of<Prepare> auto& prepare) {
  field("generation", prepare.generation);
  field("sent", prepare.sent);
}
void fields(auto& field, Of<Start> auto& start) {
  field("generation", start.number);
  field("echo", start.echo);
  field("left_ms", start.left);
}
void fields(auto& field, Of<VoteRequest> auto& request) {
  field("after", request.after);
  field("ballot", request.ballot);
}
void fields(auto& field, Of<Propose> auto& propose) {
  field("ballot", propose.ballot);
  field("decree", propose.decree);
}
void fields(auto& field, Of<Decided> auto& decided) {
  field("decree", decided.decree);
  field.list("successors", decided.successors, kMaxSuccessors);
  field("leads", decided.leads);
}
void fields(auto& field, Of<Dropped> auto& dropped) {
  field("generation", dropped.number);
  field("why", dropped.why);
}
void fields(auto& field, Of<Stop> auto& stop) {
  field("generation", stop.number);
  field.if_known("kind", stop.kind);
  field("why", stop.why);
}
void fields(auto& field, Of<Kill> auto& kill) {
  field("generation", kill.number);
  field("rank", kill.rank);
  field("entered", kill.entered);
  field("named", kill.named);
  field("why", kill.why);
}
void fields(auto& field, Of<LeftOut> auto& left_out) {
  field("generation", left_out.number);
}
void fields(auto& field, Of<Finished> auto& finished) {
  field("exit_code", finished.exit_code);
  field("line", finished.line);
  field("first_failure", finished.first_failure);
}
void fields(auto& field, Of<Refused> auto& refused) {
  field("exit_code", refused.exit_code);
  field("why", refused.why);
}

// ---- beside membership --------------------------------------------------------------------------

void fields(auto& field, Of<HostAddresses> auto& host) {
  field.list("addresses", host.addresses, kMaxAddresses);
}
void fields(auto& field, Of<WhoseCalls> auto& whose) {
  field("generation", whose.number);
  field.list("calls", whose.calls, kMaxCalls);
}
void fields(auto& field, Of<Owners> auto& owners) {
  field("generation", owners.number);
  field.list("owners", owners.owners, kMaxCalls);
}

void fields(auto& field, Of<NodePulse> auto& pulse) {
  field("generation", pulse.number);
  field("rank_base", pulse.rank_base);
  field("width", pulse.width);
  field.list("figures", pulse.figures, kMaxFigures);
  field.require(pulse.width > 0, "width");
}
void fields(auto& field, Of<Ask> auto& ask) {
  field("id", ask.id);
  field("text", ask.text);
  field.require(ask.text.size() <= kMaxAsk, "text");
}
void fields(auto& field, Of<Told> auto& told) {
  field("id", told.id);
  field("text", told.text);
  field("more", told.more);
  field.require(told.text.size() <= kMaxTold, "text");
}
void fields(auto& field, Of<Pace> auto& pace) {
  field("every_ms", pace.every);
}

// ---- heartbeats ---------------------------------------------------------------------------------

void fields(auto& field, Of<Beat> auto& beat) {
  field("sent", beat.sent);
  field("echo", beat.echo);
  field("generation", beat.number);
}
void fields(auto& field, Of<BeatAck> auto& ack) {
  field("echo", ack.echo);
  field("sent", ack.sent);
  field("left_ms", ack.left);
  field("generation", ack.number);
}

}  // namespace cxxrun::rendezvous
