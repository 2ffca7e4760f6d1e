// A shell: who is let in to the store of a generation. Asks the kernel, or has the callers' hosts asked.
#include <sys/epoll.h>
#include <utility>

#include "src/base/store/generation_store.hpp"

namespace cxxrun::store {

void GenerationStore::meet(os::Accepted accepted) {
  auto const c = std::make_shared<Connection>(*this, accepted.fd, next_name_++, accepted.ends);
  bool const looks = door_.access == StoreAccess::user;
  Owner const here = looks ? judge(c->ends, reactor_.owners->find({c->ends}).front(), reactor_.owners->own()) : Owner{};
  auto const decided =
      decide_here(door_.access, door_.ask != nullptr, c->ends, here, looks ? reactor_.owners->own() : 0);
  if (!decided) {
    keep(c, EPOLLRDHUP);  // only that: who ends while he waits makes room
    waiting_.come({c->name, c->ends}, Clock::now());
    ask_soon();
  } else if (!decided->empty()) {
    say("refused", *decided);
  } else {
    let_in(c);
  }
}

// Only now is anything read of it. Whoever was let in for the owner of the caller's port owned it while this end was
// established: if it is no more, the port may have changed hands before anybody looked.
void GenerationStore::let_in(ConnectionPtr const& c) {
  if (door_.access == StoreAccess::user && !os::is_established(c->fd.get())) {
    say("refused", ended(c->ends));
    drop(c);
  } else if (connections_.contains(c->name)) {
    c->want(reactor_.poller, EPOLLIN);
  } else {
    keep(c, EPOLLIN);
  }
}

void GenerationStore::keep(ConnectionPtr const& c, std::uint32_t events) {
  if (c->watch(reactor_.poller, events, c)) {
    connections_.emplace(c->name, c);
    ++reactor_.connections;
  }
}

void GenerationStore::ask_soon() {
  if (!std::exchange(asking_, true)) {
    reactor_.poller.soon([weak = weak_from_this()] {  // all that come at once in one question
      if (auto const self = weak.lock()) {
        self->asking_ = false;
        if (auto questions = self->waiting_.take_questions(); !questions.empty()) {
          self->door_.ask(std::move(questions));
        }
      }
    });
  }
  if (auto const due = waiting_.due(); due && !std::exchange(timing_, true)) {
    reactor_.poller.at(*due, [weak = weak_from_this()] {
      if (auto const self = weak.lock()) {
        self->timing_ = false;
        for (auto const& verdict : self->waiting_.expire(Clock::now())) {
          self->conclude(verdict);
        }
        self->ask_soon();
      }
    });
  }
}

void GenerationStore::hear(std::vector<CallerNews> const& news) {
  for (auto const& each : news) {
    if (auto const verdict = waiting_.hear(each)) {
      conclude(*verdict);
    }
  }
}

void GenerationStore::conclude(CallerVerdict const& verdict) {
  if (auto const it = connections_.find(verdict.id); it != connections_.end()) {
    auto const c = it->second;
    if (verdict.refused.empty()) {
      let_in(c);
    } else {
      say("refused", verdict.refused);
      drop(c);
    }
  }
  listen_again();
}

}  // namespace cxxrun::store
