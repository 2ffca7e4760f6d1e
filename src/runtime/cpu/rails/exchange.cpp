// Exchange: one call on the links of a rail.
#include <cassert>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

#include "src/base/core/text.hpp"
#include "src/runtime/comm/reduce.hpp"
#include "src/runtime/comm/schedule.hpp"
#include "src/runtime/cpu/common/fault_points.hpp"
#include "src/runtime/cpu/rails/rails.hpp"

namespace cxxrun::host {
namespace {

constexpr std::size_t kPeersAtOnce = 4;  // number of peers to send to at the same time
constexpr int kSlice = 1;                // ms between two checks of the local peers
constexpr Millis kEndGrace{200};         // between the ends of a peer's two connections
constexpr Millis kHeldUpAfter{20};
constexpr std::size_t kMostAtOnce = std::size_t{1} << 20U;  // bytes per system call, so that every peer gets its turn

}  // namespace

Exchange::Exchange(Links& links, int node, int rank, std::uint64_t generation)
    : links_(links), node_(node), rank_(rank), generation_(generation) {
  watched_.resize(2 * links.size());
  inputs_.resize(links.size());
}

/// The position up to which data can be sent at present.
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

/// Prepares the next call. Throws if a peer has ended before it.
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
    if (link.ended || link.broken) {  // a peer that ended before this call cannot have made it
      throw failure_of(link, link.ended.value_or(link.broken.value_or(PeerFailure::Why::died)), generation_,
                       *patience_);
    }
  }
}

void Exchange::run(Plan const& plan, LocalPeers& local_peers, Patience const& patience) {
  plan_ = &plan;
  local_peers_ = &local_peers;
  patience_ = &patience;
  fault_point(FaultPoint::rail);
  begin();
  reduce_ready();
  for (pump(); !done(); pump()) {
    wait();
  }
  if (held_by_ >= 0) {
    local_peers.held_up_by(-1);
  }
}

/// Sends as much as the sockets accept at present.
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

/// Lets turns begin in their order. A peer for which there is nothing to send at present does not block the next turns.
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

/// Waits for the sockets for at most kSlice. Reads farewells before data: they tell why a peer's connections end.
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
      read_farewell(links_[i], generation_, *patience_);
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
    local_peers_->check(*patience_);
    check_patience();
  }
}

/// A peer that has gone only matters if this call still needs it. Before it is reported, its other connection gets a
/// moment to tell the reason.
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

/// Of the peers this rank waits for, the one that has been silent for the longest: peers that wait for it themselves
/// stopped sending later.
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
  auto const until = patience_->until + local_peers_->stopped();
  bool const at_once = local_peers_->gives_up_early(*patience_);
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
    local_peers_->held_up_by(held_by_);
  }
}

// ---- the bytes: what to send to a peer next, where received bytes belong, and their reduction

/// Encodes `count` f32 at `from` and returns the result.
std::span<std::byte const> Exchange::staged(Link& link, std::byte const* from, std::size_t count) {
  comm::encode(plan_->wire, reinterpret_cast<float const*>(from), link.staged.data(), count);
  link.staged_from = link.sent;
  link.staged_to = link.sent + count * wire_element_;
  return {link.staged.data(), count * wire_element_};
}

std::span<std::byte const> Exchange::next_to_send(Link& link, std::size_t limit) {
  if (link.sent < link.staged_to) {
    return {link.staged.data() + (link.sent - link.staged_from), link.staged_to - link.sent};
  }
  if (link.sent >= limit) {
    return {};
  }
  Flow const& what = flow(link);
  std::size_t const first = on_wire(what.contribution.size());
  bool const result = link.sent >= first;
  std::size_t const at = link.sent - (result ? first : 0);
  std::size_t const left = (result ? limit : std::min(limit, first)) - link.sent;
  if (plan_->wire == Wire::same) {
    return {(result ? what.result : what.contribution).data() + at, std::min(left, kMostAtOnce)};
  }
  if (result) {
    return {encoded_.data() + at, std::min(left, kMostAtOnce)};
  }
  std::size_t const first_float = at / wire_element_ * sizeof(float);
  return staged(link, what.contribution.data() + first_float, std::min(left, block_) / wire_element_);
}

bool Exchange::send_some(Link& link) {
  std::size_t const header = sizeof link.header_out - link.header_sent;
  auto const payload = next_to_send(link, sendable(link));
  std::array<iovec, 2> parts{iovec{link.header_out.data() + link.header_sent, header},
                             iovec{const_cast<std::byte*>(payload.data()), payload.size()}};
  msghdr message{};
  message.msg_iov = parts.data() + (header == 0 ? 1 : 0);
  message.msg_iovlen = (header == 0 ? 0 : 1) + std::size_t{1};
  ssize_t const n = ::sendmsg(link.data.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0) {
    link.full = errno != EINTR;
    if (errno != EAGAIN && errno != EINTR) {
      auto const why = why_of(errno, link.rank);
      // Otherwise keep reading: data that the peer sent before it went is still there.
      if (why == PeerFailure::Why::lost || received_all(link)) {
        link.broken = why;
        link.end_seen = now_;
      }
    }
    return false;
  }
  auto const bytes = static_cast<std::size_t>(n);
  std::size_t const of_header = std::min(bytes, header);
  link.header_sent += of_header;
  link.sent += bytes - of_header;
  assert(link.sent <= total_out(link));
  moved_ += bytes - of_header;
  return true;
}

void Exchange::take_header(Link const& link) const {
  wire::RailHeader header;
  std::memcpy(&header, link.header_in.data(), sizeof header);
  comm::Call const theirs = comm::call_of(header.call);
  if (auto sentence = comm::disagreement(rank_, plan_->call, link.rank, theirs)) {
    throw Failure(fail(Errc::usage, *sentence));
  }
  if (header.number == number_ && header.bytes == total_in(link)) {
    return;
  }
  std::string text = rank_name(link.rank, link.host);
  if (header.number != number_) {
    text += " is in call " + std::to_string(header.number) + ", rank " + std::to_string(rank_) + " in call " +
            std::to_string(number_) + ": " + comm::describe(theirs);
  } else {
    text += " sends " + std::to_string(header.bytes) + " bytes in " + comm::describe(theirs) + ", rank " +
            std::to_string(rank_) + " expects " + std::to_string(total_in(link));
  }
  throw Failure(fail(Errc::usage, text));
}

std::span<std::byte> Exchange::room(Link& link) {
  if (link.header_got < sizeof link.header_in) {
    return std::span(link.header_in).subspan(link.header_got);
  }
  Flow const& what = flow(link);
  std::size_t const first = on_wire(what.contributed);
  if (link.received < first) {
    std::size_t const ring = comm::kBlocksAhead * block_;
    std::size_t const limit = std::min(first, on_wire(reduced_) + ring);
    std::size_t const at = link.received % ring;
    return {link.ring.data() + at, std::min(limit - link.received, ring - at)};
  }
  std::size_t const at = link.received - first;
  if (plan_->wire != Wire::same) {
    std::size_t const in_block = at % block_;
    return {link.undone.data() + in_block, std::min(block_ - in_block, total_in(link) - link.received)};
  }
  return what.place.subspan(at, std::min(what.place.size() - at, kMostAtOnce));
}

/// Processes `bytes` that were received into room().
void Exchange::on_received(Link& link, std::size_t bytes) {
  link.heard_at = now_;
  if (link.header_got < sizeof link.header_in) {
    link.header_got += bytes;
    if (link.header_got == sizeof link.header_in) {
      take_header(link);
    }
    return;
  }
  link.received += bytes;
  assert(link.received <= total_in(link));  // room() offers no more
  moved_ += bytes;
  std::size_t const first = on_wire(flow(link).contributed);
  if (plan_->wire != Wire::same && link.received > first) {
    std::size_t const at = link.received - first;
    if (at % block_ == 0 || link.received == total_in(link)) {  // a whole block, or the last
      std::size_t const from = (at - 1) / block_ * block_;
      auto* const to = reinterpret_cast<float*>(flow(link).place.data()) + from / wire_element_;
      comm::decode(plan_->wire, link.undone.data(), to, (at - from) / wire_element_);
    }
  }
}

bool Exchange::receive_some(Link& link) {
  auto const where = room(link);
  ssize_t const n = ::recv(link.data.get(), where.data(), where.size(), MSG_DONTWAIT);
  if (n > 0) {
    on_received(link, static_cast<std::size_t>(n));
    return true;
  }
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    link.broken = n == 0 ? PeerFailure::Why::died : why_of(errno, link.rank);
    link.end_seen = now_;
  }
  return false;
}

/// Reduces the blocks that have come from all peers.
void Exchange::reduce_ready() {
  if (reduced_ == plan_->part) {
    return;
  }
  std::size_t there = on_wire(plan_->part);
  for (Link const& link : links_) {
    there = link.node == node_ ? there : std::min(there, link.received);
  }
  while (reduced_ < plan_->part) {
    std::size_t const size = std::min(block_ / wire_element_ * element_, plan_->part - reduced_);
    if (on_wire(reduced_ + size) > there) {
      return;
    }
    plan_->wire == Wire::same ? reduce_block(reduced_, size) : reduce_encoded(reduced_, size);
    reduced_ += size;
  }
}

/// In the order of nodes, so that the sum of an element does not depend on whose part it is in.
void Exchange::reduce_block(std::size_t at, std::size_t size) {
  std::size_t const in_ring = at % (comm::kBlocksAhead * block_);
  for (std::size_t i = 0; i < links_.size(); ++i) {
    inputs_[i] = links_[i].node == node_ ? plan_->own + at : links_[i].ring.data() + in_ring;
  }
  if (plan_->widened) {
    comm::sum_from_f32(plan_->call.type, inputs_, plan_->reduced + result_of(at), size / sizeof(float),
                       plan_->call.scale);
    return;
  }
  std::array<void*, 1> const to{plan_->reduced + at};
  comm::reduce(plan_->call.type, plan_->call.op, inputs_, to, size / size_of(plan_->call.type), plan_->call.scale);
}

/// This rank's own contribution is not rounded. The sum is f32, and is rounded once if others get it.
void Exchange::reduce_encoded(std::size_t at, std::size_t size) {
  std::size_t const in_ring = on_wire(at) % (comm::kBlocksAhead * block_);
  std::size_t const count = size / sizeof(float);
  auto* const to = reinterpret_cast<float*>(plan_->reduced + at);
  if (plan_->own != plan_->reduced) {
    std::memcpy(to, plan_->own + at, size);
  }
  for (Link const& link : links_) {
    if (link.node != node_) {
      comm::accumulate_encoded(plan_->wire, to, link.ring.data() + in_ring, count);
    }
  }
  if (plan_->call.scale != 1.0F) {
    std::array<void const*, 1> const from{to};
    std::array<void*, 1> const out{to};
    comm::reduce(DType::f32, ReduceOp::sum, from, out, count, plan_->call.scale);
  }
  if (plan_->round) {
    comm::encode(plan_->wire, to, encoded_.data() + on_wire(at), count);
    comm::decode(plan_->wire, encoded_.data() + on_wire(at), to, count);
  }
}

}  // namespace cxxrun::host
