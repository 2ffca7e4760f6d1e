#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cxxrun/failure.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/tiny_model.hpp"
#include "train/data.hpp"
#include "train/optimizer.hpp"

using namespace train;  // NOLINT(google-build-using-namespace)

TEST_CASE("train: every gradient is what finite differences give", "[unit]") {
  auto const values = parameters_of<double>(kTiny, 1);
  Tensors<double> gradients(kTiny);
  Model<double> model(kTiny);
  model.forward(values.views, kTokens, kTargets);
  model.backward(values.views, gradients.views, [](std::size_t) {});

  constexpr double kStep = 3e-5;
  auto const names = parameters(kTiny);
  for (std::size_t p = 0; p < names.size(); ++p) {
    double worst = 0;
    for (std::size_t i = 0; i < names[p].count; ++i) {
      double& value = values.views[p][i];
      double const before = value;
      auto const at = [&](double offset) {
        value = before + offset;
        return model.forward(values.views, kTokens, kTargets) / static_cast<double>(kTokens.size());
      };
      // Four points: the error is of the fourth order of the step.
      double const slope = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
      value = before;
      worst = std::max(worst, std::abs(slope - gradients.views[p][i]));
    }
    INFO(names[p].name);
    CHECK(worst < 1e-8);
  }
}

TEST_CASE("train: each gradient is reported once, the last layer's first", "[unit]") {
  auto const values = parameters_of<float>(kTiny, 1);
  Tensors<float> gradients(kTiny);
  Model<float> model(kTiny);
  model.forward(values.views, kTokens, kTargets);
  std::vector<std::size_t> order;
  std::vector<float> when_ready(gradients.views.size());
  model.backward(values.views, gradients.views, [&](std::size_t p) {
    order.push_back(p);
    when_ready[p] = gradients.views[p].back();
  });

  CHECK(order.front() + 1 == gradients.views.size());
  CHECK(std::is_sorted(order.rbegin(), order.rend()));
  std::reverse(order.begin(), order.end());
  for (std::size_t p = 0; p < gradients.views.size(); ++p) {
    CHECK(order.at(p) == p);
    CHECK(when_ready[p] == gradients.views[p].back());  // and it was complete
  }
}

TEST_CASE("train: no samples give no loss and zero gradients", "[unit]") {
  auto const values = parameters_of<float>(kTiny, 1);
  Tensors<float> gradients(kTiny);
  for (auto& memory : gradients.memory) {
    std::fill(memory.begin(), memory.end(), 7.0F);
  }
  Model<float> model(kTiny);
  CHECK(model.forward(values.views, {}, {}) == 0);
  model.backward(values.views, gradients.views, [](std::size_t) {});
  for (auto const& memory : gradients.memory) {
    CHECK(std::all_of(memory.begin(), memory.end(), [](float value) { return value == 0; }));
  }
}

TEST_CASE("train: a position sees nothing behind it", "[unit]") {
  auto const values = parameters_of<double>(kTiny, 1);
  std::vector<std::uint8_t> tokens(kTokens.begin(), kTokens.begin() + 5);
  Model<double> model(kTiny);
  Tensors<double> gradients(kTiny);
  model.forward(values.views, tokens, std::vector<std::uint8_t>(5, 0));
  model.backward(values.views, gradients.views, [](std::size_t) {});
  CHECK(gradients.views[1].back() != 0);

  // The loss of the first token alone, as the difference of two sums that share the rest.
  auto const first = [&](std::uint8_t target) {
    return model.forward(values.views, tokens, std::vector<std::uint8_t>{target, 0, 0, 0, 0});
  };
  double const before = first(1) - first(2);
  tokens[4] = 6;
  CHECK(std::abs((first(1) - first(2)) - before) < 1e-12);
  tokens[0] = 5;
  CHECK(std::abs((first(1) - first(2)) - before) > 1e-3);
}

TEST_CASE("train: it learns a text by heart", "[unit]") {
  Text const text("to be, or not to be, that is the question. ", 16);
  Shape const shape{.vocabulary = text.vocabulary(), .context = 16, .width = 16, .heads = 2, .blocks = 1};
  Tensors<float> values(shape);
  Tensors<float> gradients(shape);
  Tensors<float> mean(shape);
  Tensors<float> square(shape);
  Model<float>::initialize(shape, 7, values.views);
  Model<float> model(shape);
  auto const batch = text.batch(std::vector<std::uint64_t>{0, 1, 2, 3});
  double loss = 0;
  for (std::uint64_t step = 1; step <= 200; ++step) {
    loss = model.forward(values.views, batch.tokens, batch.targets) / static_cast<double>(batch.tokens.size());
    model.backward(values.views, gradients.views, [](std::size_t) {});
    for (std::size_t p = 0; p < values.views.size(); ++p) {
      adam(adam_factors({.rate = 1e-2F}, step), values.views[p], gradients.views[p], mean.views[p], square.views[p], 1);
    }
  }
  CHECK(loss < 0.1);
}

TEST_CASE("train: the text is cut into overlapping samples with the next character as target", "[unit]") {
  Text const text("abcdefghijklmnopqrstuvwxyz", 4);
  CHECK(text.vocabulary() == 26);
  CHECK(text.samples() == 3);  // from 0, 8 and 16
  auto const batch = text.batch(std::vector<std::uint64_t>{2, 0});
  CHECK(batch.tokens == std::vector<std::uint8_t>{16, 17, 18, 19, 0, 1, 2, 3});
  CHECK(batch.targets == std::vector<std::uint8_t>{17, 18, 19, 20, 1, 2, 3, 4});
  CHECK(Text("abcde", 4).samples() == 1);
  CHECK_THROWS_AS(Text("abcd", 4), cxxrun::Failure);
}

TEST_CASE("train: the text that is built in is the file, without its first line", "[unit]") {
  auto const text = Text::read(std::string(CXXRUN_SOURCE_DIR) + "/examples/train/data/romeo_and_juliet.txt");
  CHECK(built_in_text() == text);
  CHECK(text.starts_with("SAMPSON:\nGregory, o' my word"));
  CHECK_THROWS_AS(Text::read("/nowhere/text"), cxxrun::Failure);
}
