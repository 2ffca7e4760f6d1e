// The bytes of an Exchange: what goes to a peer next, where what comes from it belongs, and what that adds up to.
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>

#include "src/base/core/rank_name.hpp"
#include "src/runtime/comm/reduce.hpp"
#include "src/runtime/comm/schedule.hpp"
#include "src/runtime/cpu/rails/exchange.hpp"

namespace cxxrun::host {
namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1}
                                    << 20U;  // bytes of one system call, so that every peer gets its turn

}  // namespace

/// `count` f32 at `from`, encoded.
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
      // Else reading goes on: what the peer sent before it went is still there.
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

/// After `bytes` have come into the room.
void Exchange::took(Link& link, std::size_t bytes) {
  link.heard_at = now_;
  if (link.header_got < sizeof link.header_in) {
    link.header_got += bytes;
    if (link.header_got == sizeof link.header_in) {
      take_header(link);
    }
    return;
  }
  link.received += bytes;
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
    took(link, static_cast<std::size_t>(n));
    return true;
  }
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    link.broken = n == 0 ? PeerFailure::Why::died : why_of(errno, link.rank);
    link.end_seen = now_;
  }
  return false;
}

/// Reduces the blocks that have come from everybody.
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

/// In the order of the nodes, so that an element's sum does not depend on whose part it is in.
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

/// This rank's own contribution is not rounded; the sum is f32, rounded once if others get it.
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
