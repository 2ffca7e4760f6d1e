#include "src/runtime/cpu/rails/exchange.hpp"

#include <cstring>

#include "src/runtime/comm/reduce.hpp"
#include "src/runtime/comm/schedule.hpp"
#include "src/runtime/cpu/common/fault_points.hpp"

namespace cxxrun::host {
namespace {

constexpr std::size_t kPeersAtOnce = 4;  // that are sent to
constexpr int kSlice = 1;                // ms between two looks at the mates
constexpr Millis kEndGrace{200};         // between the ends of a peer's two connections
constexpr Millis kHeldUpAfter{20};

}  // namespace

Exchange::Exchange(Links& links, int node, int rank, std::uint64_t generation)
    : links_(links), node_(node), rank_(rank), generation_(generation) {
  watched_.resize(2 * links.size());
  inputs_.resize(links.size());
}

/// Where sending has to stop at present.
std::size_t Exchange::sendable(Link const& link) const {
  std::size_t const there = plan_->relayed_from >= 0 ? links_[static_cast<std::size_t>(plan_->relayed_from)].received
                                                     : (plan_->part > 0 ? result_of(reduced_) : SIZE_MAX);
  std::size_t const results = std::min(on_wire(flow(link).result.size()), there);
  return std::min(link.granted, on_wire(flow(link).contribution.size()) + results);
}

bool Exchange::can_receive(Link const& link) const {
  if (link.broken || received_all(link)) {
    return false;
  }
  std::size_t const ring = on_wire(reduced_) + comm::kBlocksAhead * block_;
  return link.header_got < sizeof link.header_in || link.received >= on_wire(flow(link).contributed) ||
         link.received < ring;
}

void Exchange::begin_link(Link& link) {
  wire::RailHeader const header{number_, total_out(link), comm::fields_of(plan_->call)};
  std::memcpy(link.header_out.data(), &header, sizeof header);
  link.header_sent = link.header_got = 0;
  link.sent = link.granted = link.received = 0;
  link.staged_from = link.staged_to = 0;
  link.full = false;
  link.heard_at = now_;
  std::size_t const ring = std::min(comm::blocks_in(on_wire(flow(link).contributed), block_), comm::kBlocksAhead);
  link.ring.at_least(ring * block_);
  if (plan_->wire != Wire::same) {
    link.staged.at_least(block_);
    link.undone.at_least(block_);
  }
  turns_ = std::max(turns_, comm::blocks_in(total_out(link), block_) * (links_.size() - 1));
  middle_ += total_in(link) + total_out(link);
}

void Exchange::begin() {
  bool const encoded = plan_->wire != Wire::same;
  element_ = encoded ? sizeof(float) : 1;
  wire_element_ = encoded ? comm::wire_size(plan_->wire) : 1;
  block_ = comm::block_bytes(static_cast<int>(links_.size()));
  turn_ = turns_ = reduced_ = moved_ = middle_ = 0;
  past_middle_ = false;
  held_by_ = -1;
  now_ = looked_ = Clock::now();
  ++number_;
  for (Link& link : links_) {
    if (link.node != node_) {
      begin_link(link);
    }
  }
  middle_ /= 2;
  if (encoded && plan_->round) {
    encoded_.at_least(on_wire(plan_->part));
  }
  for (Link const& link : links_) {
    if (link.ended || link.broken) {  // whoever was there before this call cannot have made it
      throw failure_of(link, link.ended.value_or(link.broken.value_or(PeerFailure::Why::died)), generation_,
                       *patience_);
    }
  }
}

void Exchange::run(Plan const& plan, Mates& mates, Patience const& patience) {
  plan_ = &plan;
  mates_ = &mates;
  patience_ = &patience;
  fault_point(FaultPoint::rail);
  begin();
  reduce_ready();
  for (pump(); !done(); pump()) {
    wait();
  }
  if (held_by_ >= 0) {
    mates.held_up_by(-1);
  }
}

void Exchange::pump() {
  for (bool moved = true; moved;) {
    moved = false;
    grant();
    for (std::size_t step = 1; step < links_.size(); ++step) {
      Link& link = links_[(static_cast<std::size_t>(node_) + step) % links_.size()];
      if (!link.full && can_send(link)) {
        moved = send_some(link) || moved;
      }
    }
  }
  if (!past_middle_ && moved_ >= middle_) {
    past_middle_ = true;
    fault_point(FaultPoint::rail_middle);
  }
}

/// Lets turns begin, in their order. Whoever has nothing to send at present holds up nobody.
void Exchange::grant() {
  auto busy = static_cast<std::size_t>(std::count_if(
      links_.begin(), links_.end(), [&](Link const& link) { return link.node != node_ && can_send(link); }));
  for (; turn_ < turns_ && busy < kPeersAtOnce; ++turn_) {
    comm::Turn const turn = comm::turn_of(turn_, node_, static_cast<int>(links_.size()));
    Link& link = links_[static_cast<std::size_t>(turn.to)];
    bool const was_busy = can_send(link);
    link.granted = std::min(total_out(link), (turn.block + 1) * block_);
    busy += !was_busy && can_send(link) ? 1 : 0;
  }
}

void Exchange::wait() {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    Link const& link = links_[i];
    bool const other = link.node != node_;
    int const in = other && can_receive(link) ? POLLIN : 0;
    int const out = other && link.full && can_send(link) ? POLLOUT : 0;
    watched_[2 * i] = {in + out == 0 ? -1 : link.data.get(), static_cast<short>(in + out), 0};
    watched_[2 * i + 1] = {other && !link.ended ? link.control.get() : -1, POLLIN, 0};
  }
  int const ready = ::poll(watched_.data(), watched_.size(), kSlice);
  now_ = Clock::now();
  for (std::size_t i = 0; i < links_.size() && ready > 0; ++i) {
    if (watched_[2 * i + 1].revents != 0) {
      listen_to(links_[i], generation_, *patience_);
    }
  }
  for (std::size_t i = 0; i < links_.size() && ready > 0; ++i) {
    short const events = watched_[2 * i].revents;
    if ((events & ~POLLIN) != 0) {
      links_[i].full = false;
    }
    if (events != 0 && can_receive(links_[i]) && receive_some(links_[i])) {
      reduce_ready();
    }
  }
  check_ends();
  if (ready <= 0 || now_ - looked_ >= Millis(kSlice)) {
    looked_ = now_;
    mates_->check(*patience_);
    check_patience();
  }
}

/// A peer that has gone matters only if this call still needs it. Before that is said, its other connection gets a
/// moment to tell why.
void Exchange::check_ends() const {
  for (Link const& link : links_) {
    bool const gone = link.ended || link.broken;
    if (!gone || link.node == node_ || (sent_all(link) && received_all(link))) {
      continue;
    }
    auto const why = link.ended ? *link.ended : *link.broken;
    bool const certain = (link.ended && link.broken) || why == PeerFailure::Why::lost;
    if (certain || now_ - std::max(link.end_seen, link.heard_at) > kEndGrace) {
      throw failure_of(link, why, generation_, *patience_);
    }
  }
}

/// Of the peers that this rank waits for, the one that has been silent for the longest: those who wait for it
/// themselves stopped later.
Link const* Exchange::slowest() const {
  Link const* silent = nullptr;
  Link const* unread = nullptr;
  for (Link const& link : links_) {
    if (link.node == node_) {
      continue;
    }
    if (can_receive(link) && (silent == nullptr || link.heard_at < silent->heard_at)) {
      silent = &link;
    }
    if (!sent_all(link) && unread == nullptr) {
      unread = &link;
    }
  }
  return silent != nullptr ? silent : unread;
}

void Exchange::check_patience() {
  auto const until = patience_->until + mates_->stopped();
  bool const at_once = mates_->hurried(*patience_);
  bool const over = at_once || now_ >= until;
  if (!over && now_ - patience_->began < kHeldUpAfter) {
    return;
  }
  Link const* const culprit = slowest();
  if (culprit == nullptr) {
    return;
  }
  if (at_once || (over && now_ >= until + grace_for(*culprit, *patience_, plan_->distance))) {
    throw failure_of(*culprit, PeerFailure::Why::timeout, generation_, *patience_);
  }
  if (now_ - culprit->heard_at >= kHeldUpAfter && held_by_ != culprit->rank) {
    held_by_ = culprit->rank;
    mates_->held_up_by(held_by_);
  }
}

}  // namespace cxxrun::host
