#include "launcher/agent/live_job.hpp"

#include <algorithm>
#include <unistd.h>
#include <utility>
#include <variant>

#include <boost/asio/io_context.hpp>

#include "launcher/hangs/native_stack.hpp"
#include "src/base/core/text.hpp"
#include "src/base/os/log.hpp"

namespace cxxrun::launcher {

using rendezvous::AgentId;

constexpr Millis kWatchedFor{10'000};                              // after the last question for the status
constexpr Millis kAgentPatience{8000};                             // with agents that a question was passed on to
constexpr Millis kForDebugger = kDebuggerPatience + Millis{1000};  // the same where each worker takes as long
constexpr std::size_t kMaxInquiries = 16;
constexpr std::size_t kMaxFollowers = 64;
constexpr Millis kTellAgain{3000};  // also when nothing has happened: agents wait no longer than 5 s for the next part
constexpr Millis kForgetAfter{10'000};  // a follower whose agent does not ask again
constexpr Millis kGather{100};          // events come in bursts
constexpr Millis kPaceAgain{10'000};
constexpr std::size_t kSlack = 64;  // paces that are kept for nodes that come and go

namespace {

rendezvous::Wanted::What wanted_of(live::Question::What what) {
  using What = rendezvous::Wanted::What;
  switch (what) {
    case live::Question::What::restart: return What::restart;
    case live::Question::What::drain: return What::drain;
    case live::Question::What::stop: return What::stop;
    default: return What::checkpoint;
  }
}

}  // namespace

LiveJob::LiveJob(boost::asio::io_context& io, live::Facts facts, LiveJobInbox& inbox)
    : io_(io),
      facts_(std::move(facts)),
      inbox_(inbox),
      watch_timer_(io),
      pace_(live::pace_of(live_, false)),
      follow_timer_(io) {}

LiveJob::~LiveJob() = default;

void LiveJob::on_story_event(rendezvous::story::Event const& event, std::string line) {
  fold(live_, event, std::move(line), Clock::now());
  if (std::holds_alternative<rendezvous::story::Concluded>(event.what)) {
    tell_followers();                             // before the agents are told to end
  } else if (!followers_.empty() && !gathers_) {  // the first of a burst goes at once: this node may be lost
    gathers_ = true;
    auto const since = std::chrono::duration_cast<Millis>(Clock::now() - followers_told_);
    follow_timer_.after(std::max(kGather - since, Millis{1}), [this] { tell_followers(); });
  }
}

void LiveJob::on_message(AgentId agent, std::string const& host, rendezvous::LiveUp message) {
  if (auto* const pulse = std::get_if<rendezvous::NodePulse>(&message)) {
    on_pulse(agent, host, std::move(*pulse));
  } else if (auto const* const ask = std::get_if<rendezvous::Ask>(&message)) {
    on_question(agent, host, *ask);
  } else {
    on_answer(agent, std::get<rendezvous::Told>(std::move(message)));
  }
}

// ---- pulses, and their pace -------------------------------------------------------------------------------------

void LiveJob::on_pulse(AgentId agent, std::string const& host, rendezvous::NodePulse pulse) {
  auto const now = Clock::now();
  fold(live_, agent, host, std::move(pulse), now);
  if (paces_.size() > live_.members.size() + kSlack) {
    std::erase_if(paces_, [&](auto const& told) { return live_.members.count(told.first) == 0; });
  }
  if (pace_ != live::pace_of(live_, is_watched_)) {
    set_pace();
  }
  tell_pace(agent, paces_[agent], now);
  for (auto& slow : look_for_slow(live_, now)) {
    log(slow.over ? Level::info : Level::warn, live::sentence_of(slow));
    inbox_.on_story_event(facts_.run_id,
                          {std::chrono::duration_cast<Millis>(now - live_.began.value_or(now)), std::move(slow)});
  }
}

/// Pulses come faster while the status is asked for again and again.
void LiveJob::on_status_asked() {
  is_watched_ = true;
  watch_timer_.after(kWatchedFor, [this] {
    is_watched_ = false;
    set_pace();
  });
  set_pace();
}

void LiveJob::set_pace() {
  pace_ = live::pace_of(live_, is_watched_);
  for (auto& [agent, told] : paces_) {
    tell_pace(agent, told, Clock::now());
  }
}

/// A pace other than the usual one is told again and again: agents return to the usual one after a while, since the
/// coordinator that set another may be gone.
void LiveJob::tell_pace(AgentId agent, TellPace& told, TimePoint now) {
  rendezvous::Pace const wanted{pace_, is_watched_ || !live_.windows.slow.empty()};
  bool const fades = wanted != rendezvous::Pace{} && now - told.at > kPaceAgain;
  if (told.pace != wanted || fades) {
    told = {wanted, now};
    inbox_.tell(agent, wanted);
  }
}

// ---- questions --------------------------------------------------------------------------------------------------

void LiveJob::on_question(AgentId agent, std::string const& host, rendezvous::Ask const& ask) {
  auto const question = live::parse_question(ask.text);
  if (!question || question->what == live::Question::What::who) {
    return answer(agent, ask.id,
                  live::error_json("the coordinator, on " + facts_.host + ", does not know the question \"" +
                                   printable(ask.text) + "\": another version of cxxrun runs there"));
  }
  switch (question->what) {
    case live::Question::What::status: return show(agent, ask.id);
    case live::Question::What::events: return answer(agent, ask.id, lines_json(live_, facts_, question->number));
    case live::Question::What::follow: return follow({agent, ask.id, known_to(*question, facts_), Clock::now()});
    case live::Question::What::checkpoint:
    case live::Question::What::restart:
    case live::Question::What::drain:
    case live::Question::What::stop: return change(agent, host, ask, *question);
    default: return inquire(agent, ask, *question);
  }
}

void LiveJob::show(AgentId agent, std::uint64_t id) {
  on_status_asked();
  if (auto const known = inbox_.history(agent, live_.steps, idle_until(live_))) {
    fold(live_, *known);
  }
  answer(agent, id, live_json(live_, facts_, Clock::now()));
}

/// All processes of a job are of one user, so the one that asks is, too.
void LiveJob::change(AgentId agent, std::string const& host, rendezvous::Ask const& ask,
                     live::Question const& question) {
  auto why = live::objection_to_change(live_, question.number);
  rendezvous::Wanted const wanted{wanted_of(question.what), question.number,
                                  "uid " + std::to_string(geteuid()) + " on " + host, question.node};
  if (why.empty()) {
    why = inbox_.want(agent, wanted);
  }
  if (!why.empty()) {
    return answer(agent, ask.id, live::error_json(why));
  }
  if (question.what == live::Question::What::checkpoint) {
    return inquire(agent, ask, question);
  }
  answer(agent, ask.id, live::done_json((wanted.node.empty() ? "" : wanted.node + " is ") + done_by(wanted)));
}

/// `more`: other text follows this one.
void LiveJob::answer(AgentId agent, std::uint64_t id, std::string const& text, bool more) {
  live::say_in_parts(text, rendezvous::kMaxTold, more, [&](std::string part, bool another) {
    inbox_.tell(agent, rendezvous::Told{id, std::move(part), another});
  });
}

void LiveJob::follow(Follower const& follower) {
  auto const known = std::ranges::find_if(followers_, [&](Follower const& each) {
    return each.asker == follower.asker && each.asked_as == follower.asked_as;
  });
  if (known != followers_.end()) {
    known->asked = follower.asked;
  } else if (followers_.size() >= kMaxFollowers) {
    answer(follower.asker, follower.asked_as, live::error_json(live::kTooManyQuestions));
  } else {
    followers_.push_back(follower);
    tell_followers();
  }
}

/// Each answer goes on until the job is over, so no event falls between two questions.
void LiveJob::tell_followers() {
  bool const more = live_.phase != live::Phase::over;
  followers_told_ = Clock::now();
  gathers_ = false;
  std::erase_if(followers_, [&](auto const& each) { return followers_told_ - each.asked > kForgetAfter; });
  for (auto& follower : followers_) {
    answer(follower.asker, follower.asked_as, lines_json(live_, facts_, follower.after), more);
    follower.after = live_.last_line;
  }
  if (!more) {
    followers_.clear();
  }
  if (followers_.empty()) {
    follow_timer_.cancel();
  } else {
    follow_timer_.after(kTellAgain, [this] { tell_followers(); });
  }
}

void LiveJob::inquire(AgentId asker, rendezvous::Ask const& ask, live::Question const& question) {
  if (inquiries_.size() >= kMaxInquiries) {
    return answer(asker, ask.id, live::error_json(live::kTooManyQuestions));
  }
  auto inquiry = std::make_unique<Inquiry>(io_);
  inquiry->asker = asker;
  inquiry->asked_as = ask.id;
  for (auto const rank : question.ranks) {
    auto const agent = agent_of(live_, rank);
    if (!agent) {
      auto const name = "rank " + std::to_string(rank);
      return answer(
          asker, ask.id,
          live::error_json(rank < live_.ranks
                               ? "no node has reported " + name + " yet: try again in a few seconds"
                               : "there is no " + name + ": the job has " + counted(live_.ranks, "rank") + " now"));
    }
    inquiry->waits_for.insert(*agent);
  }
  for (auto const& [agent, member] : live_.members) {
    if (question.ranks.empty() && !member.speeds.empty()) {
      inquiry->waits_for.insert(agent);
    }
  }
  if (inquiry->waits_for.empty()) {
    return answer(asker, ask.id, live::error_json("no worker runs now"));
  }
  auto const id = ++last_id_;
  inquiry->patience = question.what == live::Question::What::native ? kForDebugger : kAgentPatience;
  inquiry->deadline.after(inquiry->patience, [this, id] { give_up(id); });
  for (auto const agent : inquiry->waits_for) {
    inbox_.tell(agent, rendezvous::Ask{id, ask.text});
  }
  inquiries_.emplace(id, std::move(inquiry));
}

void LiveJob::on_answer(AgentId agent, rendezvous::Told told) {
  auto const it = inquiries_.find(told.id);
  if (it == inquiries_.end() || it->second->waits_for.count(agent) == 0) {
    return;  // too late
  }
  auto& inquiry = *it->second;
  if (!told.more) {
    inquiry.waits_for.erase(agent);
  }
  bool const more = !inquiry.waits_for.empty();
  inquiry.deadline.after(inquiry.patience, [this, id = told.id] { give_up(id); });
  inbox_.tell(inquiry.asker, rendezvous::Told{inquiry.asked_as, std::move(told.text), more});
  if (!more) {
    inquiries_.erase(it);
  }
}

void LiveJob::give_up(std::uint64_t id) {
  auto const inquiry = std::move(inquiries_.extract(id).mapped());
  std::vector<std::string> hosts;
  for (auto const agent : inquiry->waits_for) {
    auto const member = live_.members.find(agent);
    hosts.push_back(member == live_.members.end() ? "a lost node" : member->second.host);
  }
  answer(inquiry->asker, inquiry->asked_as,
         live::error_json("no answer within " + seconds_text(inquiry->patience) + " from " +
                          join_first(8, std::move(hosts))));
}

}  // namespace cxxrun::launcher
