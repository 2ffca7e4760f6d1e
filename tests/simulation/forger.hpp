// Forger: somebody on the network who knows everything but the run's key: all addresses, and everything that was ever
// said, in clear. It calls whoever listens at random moments and says what it has heard, altered or not, sealed under a
// key of its own, or sent back; and says the notes of the dead again, which are true.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/trust/secure_channel.hpp"
#include "tests/simulation/network.hpp"

namespace cxxrun::simulation {

class Job;

class Forger {
 public:
  explicit Forger(Job& job);
  /// The key of the run, which only honest ends use.
  [[nodiscard]] static rendezvous::Key key();
  /// How often somebody was called, and how often something true was said again.
  std::uint64_t calls = 0;
  std::uint64_t notes = 0;

 private:
  struct Line {
    EndPtr end = nullptr;
    rendezvous::SecureChannel guard;
    std::vector<std::string> words;  ///< still to be said
    bool seals = false;              ///< under a key of its own
    bool answered = false;
  };
  void overhear(EndPtr from, Frame const& frame);
  void act();
  void call(Address at);
  void called(EndPtr end);
  void speak(std::shared_ptr<Line> const& line);
  [[nodiscard]] std::vector<std::string> choose_words();
  void alter(std::string& text);

  Job& job_;
  Random random_;                                ///< of its own: without it an execution is as it was
  std::vector<std::vector<std::string>> heard_;  ///< what each end has said, in the order of their first words
  std::map<EndPtr, std::size_t> which_;          ///< of `heard_`; never gone through, for addresses differ
  std::vector<std::string> notes_;
};

}  // namespace cxxrun::simulation
