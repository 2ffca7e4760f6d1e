// Mutation: one rule of docs/design/election.md broken on purpose, between the core and the world. The simulator must
// notice.
#pragma once

#include <array>
#include <utility>

namespace cxxrun::simulation {

enum class Mutation {
  none,
  forget_promise,        ///< a voter promises every ballot that it is asked for, and accepts every proposal
  forget_accepted,       ///< a vote does not say what was accepted
  keep_campaign,         ///< a promise to another does not end one's own campaign
  same_member_again,     ///< an agent that restarts is taken for the member it was, without its memory
  no_quorum,             ///< a coordinator takes every vote and acceptance for those of all members
  shrink_denominator,    ///< the dead leave the denominator of the quorum
  grant_without_quorum,  ///< a coordinator grants leases whoever echoes
  skip_lease_wait,       ///< Start does not wait for the workers of older generations
  vote_silent_long,      ///< voters say that the old coordinator has been silent for T
  lease_from_receipt,    ///< a lease counts from the answer's arrival
  no_lease,              ///< workers run without a lease, in agent and parent
  stalled_keeps_lease,   ///< a process that was suspended renews its own lease
  expiry_kills,          ///< workers whose lease ran out are killed at once, not frozen
  expiry_ignored,        ///< nobody freezes workers whose lease ran out: they run until they are killed
  reset_is_death,        ///< RST and refusals count as FIN
  start_undecided,       ///< workers start before the decree is decided
  ready_unasked,         ///< a decree is proposed before all of its members are ready
  fence_for_all,         ///< the fence file tells everybody that it is theirs
  no_beats,              ///< agents do not send heartbeats
  lost_timer,            ///< an agent's timer is not armed while it looks for a coordinator
  count_locally,         ///< a restart count is of the coordinator, not of the decree
  decide_silently,       ///< members of a decided generation that cannot run are not told that they vote on the next
  half_at_once,          ///< half of the promises do although more are on their way
  watch_from_beats,      ///< nobody is watched before its first beat to an elected coordinator
  unguarded,             ///< what a stranger says is passed on although it does not open
  start_at_once,         ///< a restart does not wait
  forget_failures,       ///< how many failures there were in a row is of the coordinator, not of the decree
  forget_account,        ///< and so is where the time went
  forget_end,            ///< and so is when the job ends
  believe_repeated,      ///< what an agent says again is taken as it comes, without what its connection shows
  keep_news,             ///< an agent that follows another does not tell its callers whom
};

inline constexpr std::array kMutations{
    std::pair{Mutation::forget_promise, "forget_promise"},
    std::pair{Mutation::forget_accepted, "forget_accepted"},
    std::pair{Mutation::keep_campaign, "keep_campaign"},
    std::pair{Mutation::same_member_again, "same_member_again"},
    std::pair{Mutation::no_quorum, "no_quorum"},
    std::pair{Mutation::shrink_denominator, "shrink_denominator"},
    std::pair{Mutation::grant_without_quorum, "grant_without_quorum"},
    std::pair{Mutation::skip_lease_wait, "skip_lease_wait"},
    std::pair{Mutation::vote_silent_long, "vote_silent_long"},
    std::pair{Mutation::lease_from_receipt, "lease_from_receipt"},
    std::pair{Mutation::no_lease, "no_lease"},
    std::pair{Mutation::stalled_keeps_lease, "stalled_keeps_lease"},
    std::pair{Mutation::expiry_kills, "expiry_kills"},
    std::pair{Mutation::expiry_ignored, "expiry_ignored"},
    std::pair{Mutation::reset_is_death, "reset_is_death"},
    std::pair{Mutation::start_undecided, "start_undecided"},
    std::pair{Mutation::ready_unasked, "ready_unasked"},
    std::pair{Mutation::fence_for_all, "fence_for_all"},
    std::pair{Mutation::no_beats, "no_beats"},
    std::pair{Mutation::lost_timer, "lost_timer"},
    std::pair{Mutation::count_locally, "count_locally"},
    std::pair{Mutation::decide_silently, "decide_silently"},
    std::pair{Mutation::half_at_once, "half_at_once"},
    std::pair{Mutation::watch_from_beats, "watch_from_beats"},
    std::pair{Mutation::unguarded, "unguarded"},
    std::pair{Mutation::start_at_once, "start_at_once"},
    std::pair{Mutation::forget_failures, "forget_failures"},
    std::pair{Mutation::forget_account, "forget_account"},
    std::pair{Mutation::forget_end, "forget_end"},
    std::pair{Mutation::believe_repeated, "believe_repeated"},
    std::pair{Mutation::keep_news, "keep_news"},
};

}  // namespace cxxrun::simulation
