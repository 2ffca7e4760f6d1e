#include "tests/simulation/network.hpp"

#include <memory>
#include <utility>

namespace cxxrun::simulation {

std::string text_of(Frame const& frame) {
  return std::visit(
      [](auto const& message) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(message)>, Raw>) {
          return message.bytes;
        } else {
          return rendezvous::encode(message);
        }
      },
      frame);
}

Micros Network::delay(HostId from, HostId to) {
  if (from == to) {
    return world_.random().pick(20, 200);
  }
  return world_.random().pick(least_delay, most_delay);
}

std::optional<Cut> Network::cut_at(HostId from, HostId to) const {
  if (from == to) {
    return std::nullopt;
  }
  if (dead_hosts_.contains(from) || dead_hosts_.contains(to)) {
    return Cut::drop;
  }
  auto const it = cuts_.find({from, to});
  return it == cuts_.end() ? std::nullopt : std::optional(it->second);
}

void Network::call(HostId from, Address to, std::function<void(Called)> done) {
  world_.after(delay(from, to.host), [this, from, to, done = std::move(done)]() mutable {
    auto const there = cut_at(from, to.host);
    auto const back = cut_at(to.host, from);
    if (there || back) {
      bool const refused = there == Cut::reject;
      world_.after(refused ? delay(to.host, from) : call_timeout, [done = std::move(done), refused] {
        done(Called{nullptr, refused});
      });
      return;
    }
    auto const listener = listeners_.find(to);
    bool const hangs = listener != listeners_.end() && !listener->second;
    if (hangs) {
      auto const waits = std::make_shared<std::function<void(Called)>>(std::move(done));
      auto const ends = [waits] {
        if (*waits) {
          std::exchange(*waits, {})(Called{nullptr, false});
        }
      };
      hanging_[to].push_back([this, from, to, ends] { world_.after(delay(to.host, from), ends); });
      world_.after(call_timeout, ends);
      return;
    }
    if (listener == listeners_.end()) {
      world_.after(delay(to.host, from), [done = std::move(done)] { done(Called{nullptr, true}); });
      return;
    }
    EndPtr const near = &ends_.emplace_back();
    EndPtr const far = &ends_.emplace_back();
    near->host = from;
    far->host = to.host;
    near->peer = far;
    far->peer = near;
    listener->second(far);
    world_.after(delay(to.host, from), [done = std::move(done), near] {
      done(Called{near->open ? near : nullptr, false});  // it may have been reset meanwhile
    });
  });
}

/// Calls that wait there are ended by the kernel, which is no refusal.
void Network::close(Address at) {
  listeners_.erase(at);
  for (auto const& end : std::exchange(hanging_[at], {})) {
    end();
  }
}

void Network::put(EndPtr to, End::Item item) {
  Micros const arrival = std::max(to->last_arrival, world_.now() + delay(to->peer->host, to->host));
  to->last_arrival = arrival;
  to->incoming.push_back(std::move(item));
  world_.at(arrival, [this, to] { arrive(to); });
}

void Network::arrive(EndPtr to) {
  if (to->incoming.empty()) {
    return;  // a reset has swept it away
  }
  auto item = std::move(to->incoming.front());
  to->incoming.pop_front();
  auto const cut = cut_at(to->peer->host, to->host);
  if (cut == Cut::reject && item.frame) {
    deliver(to->peer,
            End::Item{std::nullopt, rendezvous::Ended::broken});  // the firewall speaks in the receiver's name
    return;
  }
  if (cut || !to->held.empty()) {
    to->held.push_back(std::move(item));
    return;
  }
  deliver(to, item);
}

void Network::deliver(EndPtr to, End::Item const& item) {
  if (!to->open) {
    if (item.frame && to->peer->open) {  // half open: the kernel of a closed end answers with a reset
      put(to->peer, End::Item{std::nullopt, rendezvous::Ended::broken});
    }
    return;
  }
  if (item.frame) {
    if (to->received) {
      to->received(*item.frame);
    }
    return;
  }
  to->open = false;
  if (auto const closed = std::exchange(to->closed, nullptr)) {
    closed(item.ended);
  }
}

void Network::send(EndPtr from, Frame frame) {
  if (!from->open || dead_hosts_.contains(from->host)) {
    return;
  }
  ++messages;
  if (world_.messages_traced) {
    world_.note([&] {
      return "host " + std::to_string(from->host) + " to " + std::to_string(from->peer->host) + ": " + text_of(frame);
    });
  }
  if (overheard) {
    overheard(from, frame);
  }
  if (counts_bytes) {
    bytes += 4 + text_of(frame).size();
  }
  put(from->peer, End::Item{std::move(frame)});
}

void Network::hang_up(EndPtr from, rendezvous::Ended ended) {
  if (!from->open) {
    return;
  }
  from->open = false;
  from->closed = nullptr;
  from->received = nullptr;
  if (!dead_hosts_.contains(from->host)) {
    put(from->peer, End::Item{std::nullopt, ended});
  }
}

void Network::reset(EndPtr one) {
  for (EndPtr const side : {one, one->peer}) {
    side->incoming.clear();
    side->held.clear();
    deliver(side, End::Item{std::nullopt, rendezvous::Ended::broken});
  }
}

void Network::heal(HostId from, HostId to, bool connections_died) {
  cuts_.erase({from, to});
  std::size_t const known = ends_.size();  // handlers may call others meanwhile
  for (std::size_t i = 0; i < known; ++i) {
    EndPtr const side = &ends_[i];
    if (side->host != to || side->peer->host != from || side->held.empty()) {
      continue;
    }
    if (connections_died) {
      reset(side);
      continue;
    }
    // In front of what is still on its way, in the order in which it was sent.
    auto held = std::exchange(side->held, {});
    for (auto it = held.rbegin(); it != held.rend(); ++it) {
      side->incoming.push_front(std::move(*it));
      world_.at(std::max(side->last_arrival, world_.now() + 1), [this, side] { arrive(side); });
    }
  }
}

void Network::heal_all(int percent_died) {
  while (!cuts_.empty()) {
    auto const [from, to] = cuts_.begin()->first;
    heal(from, to, world_.random().chance(percent_died));
  }
}

}  // namespace cxxrun::simulation
