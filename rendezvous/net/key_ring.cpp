#include "rendezvous/net/key_ring.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include <boost/asio/post.hpp>

#include "rendezvous/trust/secret.hpp"
#include "src/base/core/time.hpp"
#include "src/base/os/munge.hpp"
#include "src/base/os/random.hpp"
#include "src/base/os/run_blocking.hpp"

namespace cxxrun::rendezvous {
namespace {

constexpr Millis kWrapDeadline{2000};
constexpr Millis kUnwrapDeadline{4000};
constexpr char const* kSilent = "munged or the home directory does not answer";
constexpr char const* kRemedy = "; set CXXRUN_SECRET_FILE to a file of mode 0600 with the same content on all nodes";

/// Runs on a thread of its own, since both ways may block.
Result<Wrap> wrap_by(WrapKind kind, KeyTransports const& transports, Grant const& grant) {
  auto const secret = kind == WrapKind::secret ? transports.secret(true) : Result<Key>(Key());
  if (!secret) {
    return secret.error();
  }
  std::string words = write_grant(grant);
  auto bytes = kind == WrapKind::munge ? os::munge_encode(words)
                                       : Result<std::string>(wrap(*secret, words, random_bytes<WrapNonce{}.size()>()));
  wipe(words);
  return bytes ? Result<Wrap>({kind, *std::move(bytes)}) : bytes.error();
}

Result<std::string> words_of(Wrap const& wrapped, KeyTransports const& transports) {
  if (wrapped.kind == WrapKind::munge) {
    return os::munge_decode(wrapped.bytes);
  }
  auto const secret = transports.secret(false);
  if (!secret) {
    return secret.error();
  }
  auto words = unwrap(*secret, wrapped.bytes);
  return words ? Result<std::string>(*std::move(words)) : fail(Errc::refused, "it has a different secret");
}

Result<Key> unwrap_one(KeyTransports const& transports, Wrap const& wrapped, CallId const& call) {
  auto words = words_of(wrapped, transports);
  if (!words) {
    return words.error();
  }
  auto const grant = read_grant(*words);
  wipe(*words);
  return grant ? take_key(*grant, transports.looks_for, call) : fail(Errc::refused, "it holds no cxxrun key");
}

/// All wraps of a key are tried at once. The first that gives the key wins; else the errors are joined.
struct Trial {
  KeyRing::Found found;
  std::size_t left = 0;
  std::string trouble;

  void on_result(Result<Key> const& key, KeyId const& id) {
    --left;
    bool const right = key && id_of(*key) == id;
    if (!right) {
      std::string const why = key ? "it offers another key than the one it names" : key.error().message();
      trouble = is_of_another_run(why) || trouble.empty() ? why
                : is_of_another_run(trouble)              ? trouble
                                                          : trouble + "; " + why;
    }
    if (found && (right || left == 0)) {
      std::exchange(found,
                    {})(right ? key : fail(Errc::refused, is_of_another_run(trouble) ? trouble : trouble + kRemedy));
    }
  }
};

}  // namespace

KeyRing::KeyRing(boost::asio::io_context& io, KeyTransports transports) : io_(io), transports_(std::move(transports)) {}

bool KeyRing::has(WrapKind kind) const {
  return kind == WrapKind::munge ? transports_.munge : static_cast<bool>(transports_.secret);
}

Result<void> KeyRing::make(bool shared) {
  auto bytes = random_bytes<Key::kBytes>();
  own_ = Key(bytes);
  explicit_bzero(bytes.data(), bytes.size());
  ways_.clear();
  if (!shared) {
    return {};
  }
  struct Way {
    WrapKind kind{};
    std::shared_ptr<std::optional<Result<Wrap>>> made = std::make_shared<std::optional<Result<Wrap>>>();
    std::unique_ptr<os::BoundedThread> thread;
  };
  std::vector<Way> ways;
  for (WrapKind const kind : {WrapKind::munge, WrapKind::secret}) {
    if (has(kind)) {
      auto& way = ways.emplace_back();
      way.kind = kind;
      way.thread = std::make_unique<os::BoundedThread>(
          "cxxrun-key", [made = way.made, kind, transports = transports_, grant = Grant{*own_, {}, {}}] {
            made->emplace(wrap_by(kind, transports, grant));
          });
    }
  }
  std::string trouble = ways.empty() ? "--auth file needs CXXRUN_SECRET_FILE or HOME" : "";
  auto const deadline = Clock::now() + kWrapDeadline;
  for (auto const& way : ways) {
    bool const in_time = way.thread->join_until(deadline);
    if (in_time && **way.made) {
      ways_.push_back(way.kind);
    } else {
      trouble += (trouble.empty() ? "" : "; ") + (in_time ? (*way.made)->error().message() : kSilent);
    }
  }
  return !ways_.empty() ? Result<void>() : fail(Errc::io, "no key to share with the other nodes: " + trouble + kRemedy);
}

void KeyRing::take(Key const& key) {
  if (own_ != key) {  // else it was made here
    own_ = key;
    ways_.clear();
  }
}

SecureChannel KeyRing::called() const {
  return SecureChannel::of_called(own_, random_bytes<Nonce{}.size()>());
}

SecureChannel KeyRing::calls() const {
  return SecureChannel::of_caller(random_bytes<Nonce{}.size()>(), own_ ? id_of(*own_) : latest_);
}

void KeyRing::wrap_for(CallId const& call, std::weak_ptr<void> caller, std::function<void(std::vector<Wrap>)> done) {
  if (ways_.empty()) {
    boost::asio::post(io_, [done = std::move(done)] { done({}); });
    return;
  }
  waiting_.push_back({call, std::move(caller), std::move(done)});
  if (!wrapping_) {
    wrap_next();
  }
}

/// Makes one wrap for a batch of waiting callers, so that a crowd costs few calls to munged. Callers that have hung up
/// are left out: after a flood there are thousands, and a batch has room for kMostCalls only.
void KeyRing::wrap_next() {
  struct Batch {
    std::vector<Waiting> callers;
    std::vector<Wrap> wraps;
    std::size_t left = 0;
  };
  if (ways_.empty()) {  // this process has joined another run since
    for (auto& caller : std::exchange(waiting_, {})) {
      boost::asio::post(io_, [done = std::move(caller.done)] { done({}); });
    }
    return;
  }
  std::erase_if(waiting_, [](Waiting const& each) { return each.caller.expired(); });
  if (waiting_.empty()) {
    return;
  }
  auto const batch = std::make_shared<Batch>();
  assert(own_);
  Grant grant{*own_, transports_.opens, {}};
  while (!waiting_.empty() && grant.calls.size() < kMostCalls) {
    grant.calls.push_back(waiting_.front().call);
    batch->callers.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  wrapping_ = true;
  batch->left = ways_.size();
  for (WrapKind const kind : std::vector(ways_)) {
    os::run_blocking<Result<Wrap>>(
        io_, "cxxrun-key", kWrapDeadline,
        [transports = transports_, kind, grant] { return wrap_by(kind, transports, grant); },
        fail(Errc::timeout, kSilent),
        [weak = weak_from_this(), batch, kind](Result<Wrap> const& made) {
          auto const self = weak.lock();
          if (!self) {
            return;
          }
          if (made) {
            batch->wraps.push_back(*made);
          } else if (made.error().code == Errc::timeout && self->ways_.size() > 1) {
            std::erase(self->ways_, kind);  // so that no other caller waits for it
          }
          if (--batch->left > 0) {
            return;
          }
          self->wrapping_ = false;
          self->wrap_next();  // munged works on the next batch while this one is answered
          for (auto const& caller : batch->callers) {
            caller.done(batch->wraps);
          }
        });
  }
}

std::optional<Key> KeyRing::known(KeyId const& id) const {
  if (own_ && id_of(*own_) == id) {
    return own_;
  }
  auto const it = known_.find(id);
  return it == known_.end() ? std::nullopt : std::optional(it->second);
}

void KeyRing::unwrap(KeyOffer const& offer, CallId const& call, Found found) {
  auto const trial = std::make_shared<Trial>();
  trial->found = [weak = weak_from_this(), found = std::move(found)](Result<Key> const& key) {
    if (auto const self = weak.lock()) {
      if (key) {
        self->know(*key);
      }
      found(key);
    }
  };
  for (auto const& wrapped : offer.wraps) {
    if (has(wrapped.kind)) {
      ++trial->left;
      os::run_blocking<Result<Key>>(
          io_, "cxxrun-key", kUnwrapDeadline,
          [transports = transports_, wrapped, call] { return unwrap_one(transports, wrapped, call); },
          fail(Errc::timeout, kSilent), [trial, id = offer.key](Result<Key> const& key) { trial->on_result(key, id); });
    }
  }
  if (trial->left == 0) {
    trial->left = 1;
    boost::asio::post(io_, [trial] { trial->on_result(fail(Errc::refused, "it offers no way to get its key"), {}); });
  }
}

}  // namespace cxxrun::rendezvous
