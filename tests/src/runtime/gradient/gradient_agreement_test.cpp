#include "src/runtime/gradient/agreement.hpp"
#include "tests/support/catch.hpp"

using namespace cxxrun;            // NOLINT(google-build-using-namespace)
using namespace cxxrun::gradient;  // NOLINT(google-build-using-namespace)

namespace {

std::vector<Parameter> const kParameters{{"embed", 10, DType::f32}, {"w1", 4, DType::bf16}};

std::uint64_t hash_of_all(std::vector<Parameter> const& parameters, GradientSynchronizer::Options const& options) {
  return hash_of(hashes_of(items_of(parameters, options)));
}

}  // namespace

TEST_CASE("agreement: whatever differs changes the hash", "[unit]") {
  auto const same = hash_of_all(kParameters, {});
  CHECK(same == hash_of_all(kParameters, {}));

  auto other = kParameters;
  other[1].count = 5;
  CHECK(hash_of_all(other, {}) != same);
  other = kParameters;
  other[1].type = DType::f16;
  CHECK(hash_of_all(other, {}) != same);
  other = kParameters;
  std::swap(other[0], other[1]);
  CHECK(hash_of_all(other, {}) != same);
  other = kParameters;
  other.pop_back();
  CHECK(hash_of_all(other, {}) != same);
  CHECK(hash_of_all(kParameters, {.bucket_bytes = 1}) != same);
  CHECK(hash_of_all(kParameters, {.wire = Wire::bf16}) != same);
  CHECK(hash_of_all(kParameters, {.find_unused = true}) != same);
}

TEST_CASE("agreement: names that look the same in a message still differ", "[unit]") {
  std::string const prefix(80, 'x');
  for (auto const& [a, b] : {std::pair<std::string, std::string>{"a\n", "a\t"}, {prefix + "1", prefix + "2"}}) {
    CHECK(quoted_name(a) == quoted_name(b));
    CHECK(hash_of_all({{a, 1, DType::f32}}, {}) != hash_of_all({{b, 1, DType::f32}}, {}));
  }
}

TEST_CASE("agreement: the first difference is found, a missing item included", "[unit]") {
  std::vector<std::uint64_t> const a{1, 2, 3};
  CHECK(first_difference(a, a) == std::nullopt);
  CHECK(first_difference(a, std::vector<std::uint64_t>{1, 5, 3}) == 1);
  CHECK(first_difference(a, std::vector<std::uint64_t>{1, 2}) == 2);
  CHECK(first_difference(std::vector<std::uint64_t>{1, 2}, a) == 2);
}

TEST_CASE("agreement: items say what a person has to compare", "[unit]") {
  CHECK(items_of(kParameters, {})[2] == "parameter 1 \"w1\" of 4 bf16");
  CHECK(items_of(std::vector<Tensor>{{nullptr, 3, DType::i64}}, 2) ==
        std::vector<std::string>{"a broadcast from rank 2", "tensor 0 of 3 i64"});
}

TEST_CASE("agreement: parameters that no gradient can have are refused by name", "[unit]") {
  CHECK(refusal(kParameters) == std::nullopt);
  CHECK(refusal(std::vector<Parameter>{{"ids", 4, DType::i64}}) ==
        "parameter \"ids\" is of type i64: gradients are f32, f64, f16 or bf16");
  CHECK(refusal(std::vector<Parameter>{{"w", 4, DType::f32}, {"w", 4, DType::f32}}) ==
        "two parameters are named \"w\": messages need unique names");
  auto const huge = refusal(std::vector<Parameter>{{"w", SIZE_MAX / 4, DType::f32}});
  CHECK(huge.value_or("").find("exceeds the address space") != std::string::npos);
  auto const sum = refusal(std::vector<Parameter>{
      {"v", PTRDIFF_MAX / 4, DType::f16}, {"w", PTRDIFF_MAX / 4, DType::f16}, {"x", 1, DType::f16}});
  CHECK(sum.value_or("").find("\"w\"") != std::string::npos);
}
