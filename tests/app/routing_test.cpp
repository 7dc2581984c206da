#include <plait/sim/app/routing.hpp>

#include <algorithm>
#include <numeric>
#include <set>

#include "app_test.hpp"

namespace plait::sim {
namespace {

using test::npy;
using test::raw;
using test::refusal;

// 4 ranks in 2 nodes, 8 experts, 2 tokens of 2 choices.
class RoutingFile : public testing::Test {
  protected:
    Scenario scenario(const std::string& more = "") {
        const auto text =
            "topology = { nodes = 2, gpus_per_node = 2 }\n[workload]\nkind = \"ep\"\nexperts = 8\ntopk = "
            "2\ntokens = 2\n"
            "routing = \"r.npy\"\n" +
            more;
        return parse_scenario(text, folder_.path() / "s.toml").front();
    }
    std::string refused(const std::string& more = "") {
        auto message = refusal([&] { (void)load_routing(scenario(more)); });
        const auto prefix = folder_.path().string() + "/";
        EXPECT_TRUE(message.starts_with(prefix)) << message;
        return message.substr(std::min(prefix.size(), message.size()));
    }

    test::TemporaryFolder folder_;
};

TEST_F(RoutingFile, IsReadByRankAndToken) {
    std::vector<int16_t> ids(4 * 3 * 2);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int16_t>(static_cast<int>(i % 9) - 1);
    folder_.write("r.npy", npy("<i2", "4, 3, 2", raw(ids)));
    const Routing routing = load_routing(scenario("first_token = 1\n"));
    for (uint32_t rank = 0; rank < 4; ++rank) {
        ASSERT_EQ(routing.tokens(rank), 2U);
        for (uint32_t token = 0; token < 2; ++token) {
            for (uint32_t k = 0; k < 2; ++k) {
                EXPECT_EQ(routing.experts_of(rank, token)[k], ids[(rank * 3 + token + 1) * 2 + k]);
            }
        }
    }
}

TEST_F(RoutingFile, OfTwoDimensionsIsDividedAmongTheRanks) {
    folder_.write("r.npy", npy("|u1", "8, 2",
                               raw(std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0})));
    const Routing routing = load_routing(scenario());
    EXPECT_EQ(routing.experts_of(1, 0)[0], 4);
    EXPECT_EQ(routing.experts_of(3, 1)[1], 0);
}

TEST_F(RoutingFile, WithExpertsOutOfRangeIsRefused) {
    std::vector<int16_t> ids(16, 0);
    ids[11] = 8;  // == E
    folder_.write("r.npy", npy("<i2", "4, 2, 2", raw(ids)));
    EXPECT_EQ(refused(), "r.npy: found expert 8 at rank 2, token 1, choice 1, expected -1 to 7");
    ids[11] = -2;
    folder_.write("r.npy", npy("<i2", "4, 2, 2", raw(ids)));
    EXPECT_EQ(refused(), "r.npy: found expert -2 at rank 2, token 1, choice 1, expected -1 to 7");
}

TEST_F(RoutingFile, ThatIsTooSmallIsRefused) {
    folder_.write("r.npy", npy("|u1", "3, 2, 2", std::string(12, '\0')));
    EXPECT_EQ(refused(), "r.npy: found tokens of 3 ranks, expected 4 or more: nodes * gpus_per_node");
    folder_.write("r.npy", npy("|u1", "4, 2, 2", std::string(16, '\0')));
    EXPECT_EQ(refused("first_token = 1\n"),
              "r.npy: found 2 tokens a rank, expected 3 or more: workload.first_token + tokens");
    folder_.write("r.npy", npy("|u1", "4, 2, 3", std::string(24, '\0')));
    EXPECT_EQ(refused(), "r.npy: found 3 choices a token, expected workload.topk = 2");
    folder_.write("r.npy", npy("|u1", "7, 2", std::string(14, '\0')));
    EXPECT_EQ(refused(), "r.npy: found 1 tokens a rank, expected 2 or more: workload.first_token + tokens");
}

TEST_F(RoutingFile, TakesItsWeightsFromTheOtherFile) {
    folder_.write("r.npy", npy("|u1", "4, 2, 2", std::string(16, '\1')));
    std::vector<float> weights(16);
    std::iota(weights.begin(), weights.end(), 0.5F);
    folder_.write("w.npy", npy("<f4", "4, 2, 2", raw(weights)));
    EXPECT_EQ(load_routing(scenario("routing_weights = \"w.npy\"\n")).weights, weights);
    folder_.write("w.npy", npy("<f4", "8, 2", raw(weights)));
    EXPECT_NE(refused("routing_weights = \"w.npy\"\n").find("w.npy: found another shape than"),
              std::string::npos);
}

TEST_F(RoutingFile, WithoutWeightsGetsSomeThatAddUp) {
    folder_.write("r.npy", npy("|u1", "4, 2, 2", std::string(16, '\1')));
    const Routing routing = load_routing(scenario());
    EXPECT_FLOAT_EQ(routing.weights_of(2, 1)[0] + routing.weights_of(2, 1)[1], 2.5F);
    EXPECT_GT(routing.weights_of(2, 1)[0], routing.weights_of(2, 1)[1]);
}

TEST_F(RoutingFile, IdleRanksBringNothing) {
    std::vector<uint8_t> ids{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    folder_.write("r.npy", npy("|u1", "4, 2, 2", raw(ids)));
    const Routing routing = load_routing(scenario("idle_ranks = [0, 2]\n"));
    EXPECT_EQ(routing.tokens(0), 0U);
    EXPECT_EQ(routing.tokens(2), 0U);
    EXPECT_EQ(routing.experts_of(1, 0)[0], 1);
    EXPECT_EQ(routing.experts_of(3, 1)[0], 3);
}

Routing made(const std::string& kind, uint32_t seed = 1) {
    const auto text = "seed = " + std::to_string(seed) +
                      "\n[workload]\nkind = \"ep\"\ntokens = 500\nrouting = \"" + kind + "\"\n";
    return load_routing(parse_scenario(text, "s.toml").front());
}

TEST(MadeRouting, HasDistinctExpertsInRange) {
    for (const char* kind : {"uniform", "grouped", "skewed"}) {
        const Routing routing = made(kind);
        for (uint32_t rank = 0; rank < routing.ranks(); ++rank) {
            for (uint32_t token = 0; token < routing.tokens(rank); ++token) {
                const auto experts = routing.experts_of(rank, token);
                const std::set<int16_t> distinct(experts.begin(), experts.end());
                ASSERT_EQ(distinct.size(), 8U);
                ASSERT_GE(*distinct.begin(), 0);
                ASSERT_LT(*distinct.rbegin(), 256);
                std::set<int> groups;
                for (const int16_t expert : distinct) groups.insert(expert / 32);
                if (kind == std::string("grouped")) {
                    ASSERT_LE(groups.size(), 4U);
                }
            }
        }
    }
}

TEST(MadeRouting, UniformIsUniform) {
    const Routing routing = made("uniform", 3);
    std::vector<int> load(256);
    for (const int16_t expert : routing.experts) ++load[static_cast<size_t>(expert)];
    // 16 * 500 tokens * 8 / 256 = 250 a expert; the standard deviation is below 16.
    EXPECT_GT(*std::min_element(load.begin(), load.end()), 250 - 6 * 16);
    EXPECT_LT(*std::max_element(load.begin(), load.end()), 250 + 6 * 16);
}

TEST(MadeRouting, SkewedSendsAllButTenTokensAlike) {
    const Routing routing = made("skewed");
    for (uint32_t rank = 0; rank < routing.ranks(); ++rank) {
        std::set<std::vector<int16_t>> lists;
        for (uint32_t token = 10; token < routing.tokens(rank); ++token) {
            lists.emplace(routing.experts_of(rank, token).begin(), routing.experts_of(rank, token).end());
        }
        EXPECT_EQ(lists.size(), 1U);
    }
}

TEST(MadeRouting, FollowsTheSeed) {
    EXPECT_EQ(made("uniform", 5).experts, made("uniform", 5).experts);
    EXPECT_NE(made("uniform", 5).experts, made("uniform", 6).experts);
}

TEST(MicroBatch, PartsMakeTheWhole) {
    const Routing whole = made("uniform");
    const Routing first = micro_batch(whole, 0, 2), second = micro_batch(whole, 1, 2);
    for (uint32_t rank = 0; rank < whole.ranks(); ++rank) {
        ASSERT_EQ(first.tokens(rank) + second.tokens(rank), whole.tokens(rank));
        for (uint32_t token = 0; token < whole.tokens(rank); ++token) {
            const bool is_first = token < first.tokens(rank);
            const auto part = is_first ? first.experts_of(rank, token)
                                       : second.experts_of(rank, token - first.tokens(rank));
            const auto expected = whole.experts_of(rank, token);
            ASSERT_TRUE(std::equal(part.begin(), part.end(), expected.begin(), expected.end()));
        }
    }
}

}  // namespace
}  // namespace plait::sim
