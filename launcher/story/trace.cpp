#include "launcher/story/trace.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include <nlohmann/json.hpp>

#include "src/core/hostlist.hpp"

namespace cxxrun::launcher {
namespace {

namespace story = rendezvous::story;
using rendezvous::PastGeneration;
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBars = 200'000;  // more than a browser shows
constexpr int kSpentTrack = 0;
constexpr int kGenerationTrack = 1;

class Trace {
 public:
  Trace() {
    name("process_name", 0, 0, "job");
    name("thread_name", 0, kSpentTrack, "time");
    name("thread_name", 0, kGenerationTrack, "generations");
  }

  void hear(Millis /*at*/, story::Formed const& event) {
    formed_ = event;
    failed_.clear();
    started_.reset();
  }
  void hear(Millis at, story::Started const& /*event*/) { started_ = at; }
  void hear(Millis at, story::WorkerFailed const& event) { failed_.emplace(event.rank, std::pair{at, event.how}); }
  void hear(Millis at, story::Ended const& event) {
    generation(event.what);
    workers(at, event.what);
    started_.reset();
  }
  void hear(Millis /*at*/, story::TookOver const& event) {
    for (auto const& past : event.known.past) {
      generation(past);
    }
    if (auto const known = event.known.account.total(); known > Millis{0} && !told_) {
      bar("before another node coordinated", 0, kSpentTrack, Millis{0}, known, {});
    }
  }
  void hear(Millis /*at*/, story::Stretch const& event) {
    told_ = true;
    bar(name_of(event.spent), 0, kSpentTrack, event.from, event.to, {});
  }
  template <class Other>
  void hear(Millis /*at*/, Other const& /*event*/) {}

  [[nodiscard]] std::string text() const {
    std::string all = "[";
    for (auto const& bar : bars_) {
      all += (all.size() > 1 ? ",\n" : "\n") + bar.dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    return all + "\n]\n";
  }

 private:
  void bar(std::string const& what, std::uint64_t process, std::uint64_t thread, Millis from, Millis to, Json args) {
    Json json{{"name", what},  {"ph", "X"},          {"pid", process},
              {"tid", thread}, {"ts", micros(from)}, {"dur", micros(to - from)}};
    if (!args.is_null()) {
      json["args"] = std::move(args);
    }
    bars_.push_back(std::move(json));
  }
  void name(char const* what, std::uint64_t process, std::uint64_t thread, std::string const& as) {
    bars_.push_back({{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", as}}}});
  }
  static std::int64_t micros(Millis time) { return time.count() * 1000; }

  void generation(PastGeneration const& past) {
    bar("generation " + std::to_string(past.number), 0, kGenerationTrack, past.began, past.began + past.ran,
        {{"nodes", past.nodes}, {"ranks", past.ranks}, {"why", past.why}});
  }

  /// Each from the start to its own failure, or to the end of all.
  void workers(Millis at, PastGeneration const& past) {
    auto const hosts = expand_hostlist(formed_.hosts);
    auto const sizes = expand_counts(formed_.local_sizes);
    bool const known =
        started_ && formed_.generation == past.number && hosts && sizes && hosts->size() == sizes->size();
    if (!known || bars_.size() + formed_.ranks > kMostBars) {
      return;
    }
    std::uint32_t rank = 0;
    for (std::size_t node = 0; node < hosts->size(); ++node) {
      if (auto const key = std::pair{node, (*hosts)[node]}; named_.insert(key).second) {
        name("process_name", node + 1, 0, "node " + std::to_string(node) + ": " + key.second);
      }
      for (unsigned i = 0; i < (*sizes)[node]; ++i, ++rank) {
        auto const failed = failed_.find(rank);
        bool const whole = failed == failed_.end();
        bar("generation " + std::to_string(past.number), node + 1, rank, *started_, whole ? at : failed->second.first,
            whole ? Json() : Json{{"failed", failed->second.second}});
      }
    }
  }

  std::vector<Json> bars_;
  std::set<std::pair<std::size_t, std::string>> named_;
  story::Formed formed_;
  std::optional<Millis> started_;
  std::map<std::uint32_t, std::pair<Millis, std::string>> failed_;
  bool told_ = false;
};

}  // namespace

std::string trace_text(std::vector<story::Event> const& story) {
  Trace trace;
  for (auto const& event : story) {
    std::visit([&](auto const& what) { trace.hear(event.at, what); }, event.what);
  }
  return trace.text();
}

}  // namespace cxxrun::launcher
