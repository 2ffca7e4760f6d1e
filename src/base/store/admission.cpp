#include "src/base/store/admission.hpp"

#include <cassert>
#include <utility>

namespace cxxrun::store {
namespace {

using Kind = Owner::Kind;

Refusal refuse(TcpEnds const& ends, std::string const& why) {
  return "store refused " + address_text(ends.caller) + " port " + std::to_string(ends.caller.port) + ": " + why;
}

Refusal refuse(TcpEnds const& ends, Owner const& owner, std::uint32_t own) {
  switch (owner.kind) {
    case Kind::ours: return {};
    case Kind::other:
      return refuse(ends, "it belongs to uid " + std::to_string(owner.uid) + ", not " + std::to_string(own));
    case Kind::none:
      return refuse(ends,
                    "no process of its host has this connection: it has ended, or comes out of another network "
                    "(--store-access hosts|any)");
    case Kind::unknown:
      return refuse(ends, "its host cannot tell whose it is: " + owner.why + " (--store-access hosts|any)");
  }
  return {};
}

}  // namespace

Owner judge(TcpEnds const& asked, std::optional<SeenSocket> const& seen, std::uint32_t own) {
  if (!seen || seen->ends != asked || !seen->established || seen->inode == 0) {
    return {};
  }
  return seen->uid == own ? Owner{Kind::ours, 0, {}} : Owner{Kind::other, seen->uid, {}};
}

std::optional<Refusal> decide_here(StoreAccess access, bool can_ask, TcpEnds const& ends, Owner const& here,
                                   std::uint32_t own) {
  if (access == StoreAccess::any) {
    return Refusal{};
  }
  bool const only_here = access == StoreAccess::user && is_loopback(ends.caller);
  if (here.kind == Kind::ours || here.kind == Kind::other || only_here) {
    return refuse(ends, here, own);
  }
  return can_ask ? std::nullopt
                 : std::optional(refuse(ends, "no other host can be asked for its owner (--store-access any)"));
}

Refusal refuse_ended(TcpEnds const& ends) {
  return refuse(ends, "it had ended before it was let in");
}

void WaitingCallers::add(CallerQuestion question, TimePoint now) {
  assert(waiting_.empty() || question.id > waiting_.rbegin()->first);  // expire() relies on it
  unasked_.push_back(question.id);
  waiting_.emplace(question.id, Waiting{question.ends, now + kPatience, 0, std::nullopt});
}

std::vector<CallerQuestion> WaitingCallers::take_questions() {
  std::vector<CallerQuestion> questions;
  for (std::uint64_t const id : std::exchange(unasked_, {})) {
    if (auto const it = waiting_.find(id); it != waiting_.end()) {
      questions.push_back({id, it->second.ends});
    }
  }
  return questions;
}

std::optional<CallerVerdict> WaitingCallers::on_news(CallerNews const& news) {
  auto const it = waiting_.find(std::visit([](auto const& each) { return each.id; }, news));
  if (it == waiting_.end()) {
    return std::nullopt;
  }
  Waiting& waiting = it->second;
  if (auto const* const asked = std::get_if<HostsAsked>(&news)) {
    waiting.answers = asked->hosts;
  } else {
    Owner const& owner = std::get<OwnerFound>(news).owner;
    waiting.answers -= waiting.answers > 0 ? 1 : 0;
    if (!waiting.owner || waiting.owner->kind == Kind::none || owner.kind == Kind::ours) {
      waiting.owner = owner;
    }
  }
  bool const ours = waiting.owner && waiting.owner->kind == Kind::ours;
  if (!ours && waiting.answers > 0) {
    return std::nullopt;
  }
  auto const id = it->first;
  auto const gone = waiting_.extract(it);
  TcpEnds const& ends = gone.mapped().ends;
  auto const& owner = gone.mapped().owner;
  return CallerVerdict{id, owner ? refuse(ends, *owner, own_)
                                 : refuse(ends, "no agent of this job is at that address (--store-access hosts|any)")};
}

std::vector<CallerVerdict> WaitingCallers::expire(TimePoint now) {
  std::vector<CallerVerdict> late;
  while (!waiting_.empty() && waiting_.begin()->second.until <= now) {
    auto const gone = waiting_.extract(waiting_.begin());
    late.push_back({gone.key(), refuse(gone.mapped().ends, "its host did not say whose it is within 2 s")});
  }
  return late;
}

std::optional<TimePoint> WaitingCallers::due() const {
  return waiting_.empty() ? std::nullopt : std::optional(waiting_.begin()->second.until);
}

}  // namespace cxxrun::store
