#include "src/runtime/client/group_registry.hpp"

#include <functional>

#include "tests/support/catch.hpp"

using cxxrun::Errc;
using cxxrun::fail;
using cxxrun::Failure;
using cxxrun::PeerFailure;
using cxxrun::client::GroupRegistry;

namespace {

/// Does in each call what the test asks for.
class FakeBackend final : public cxxrun::host::Backend {
 public:
  explicit FakeBackend(std::function<void()> act) : act_(std::move(act)) {}
  void run(cxxrun::comm::Call const& /*call*/) override { act_(); }
  std::byte* allocate(std::size_t /*bytes*/) override { return nullptr; }
  [[nodiscard]] std::string describe() const override { return "fake"; }

 private:
  std::function<void()> act_;
};

void lose(int rank) {
  throw PeerFailure(PeerFailure::Why::left, rank, "node2", 1, {});
}

std::unique_ptr<cxxrun::host::Backend> member(std::shared_ptr<GroupRegistry> const& registry,
                                              std::function<void()> act) {
  return registry->member(std::make_unique<FakeBackend>(std::move(act)), "rank 3 on node2");
}

std::string said(cxxrun::host::Backend& member) {
  try {
    member.run({});
  } catch (std::exception const& failure) {
    return failure.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("family: all members fail with what ended the first, whatever peers tell them later", "[unit]") {
  auto const registry = std::make_shared<GroupRegistry>();
  auto const one = member(registry, [] { lose(1); });
  auto const two = member(registry, [] { lose(2); });
  std::string const first = said(*one);
  CHECK(first.find("rank 1 on node2") != std::string::npos);
  CHECK(said(*two) == first);
  CHECK(said(*one) == first);
  CHECK(registry->why() == first);
  CHECK(registry->blames(1));
  CHECK_FALSE(registry->blames(2));
}

TEST_CASE("family: peers who hear of a refused call at once do not tell this rank that it left", "[unit]") {
  auto const registry = std::make_shared<GroupRegistry>();
  auto const group = member(registry, [] { lose(3); });
  registry->keep(std::make_exception_ptr(Failure(fail(Errc::usage, "no such call"))));
  CHECK(said(*group) == "no such call");
  CHECK_FALSE(registry->blames(3));
}
