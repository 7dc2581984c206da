// The spray selector against a slow model that keeps everything in lists.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <plait/engines/spray.hpp>
#include <random>
#include <set>
#include <vector>

#include "seed.hpp"

namespace plait::engines {
namespace {

struct Model {
    uint32_t planes;
    std::vector<EntropyState> states;
    std::deque<uint32_t> failed;  // least recently failed first, over all planes
    std::vector<uint32_t> losses;
    std::set<uint32_t> excluded;

    Model(uint32_t plane_count, uint32_t values)
        : planes(plane_count), states(values, EntropyState::good), losses(plane_count, 0) {}

    void drop(uint32_t index) {
        failed.erase(std::remove(failed.begin(), failed.end(), index), failed.end());
    }
    void lose(uint32_t index) {
        ++losses[index % planes];
        if (states[index] == EntropyState::denied) return;
        drop(index);
        failed.push_back(index);
        states[index] = EntropyState::assumed_bad;
    }
    void acknowledge(uint32_t index, bool ecn) {
        losses[index % planes] = 0;
        if (ecn && states[index] == EntropyState::good) states[index] = EntropyState::skip;
    }
    void return_probe(uint32_t index) {
        losses[index % planes] = 0;
        if (states[index] != EntropyState::assumed_bad) return;
        drop(index);
        states[index] = EntropyState::good;
    }
    void deny(uint32_t index) {
        drop(index);
        states[index] = EntropyState::denied;
    }
    void restore(uint32_t plane) {
        excluded.erase(plane);
        losses[plane] = 0;
        for (uint32_t index = plane; index < states.size(); index += planes) {
            drop(index);
            if (states[index] != EntropyState::denied) states[index] = EntropyState::good;
        }
    }
    bool available(uint32_t index) const {
        return states[index] == EntropyState::good || states[index] == EntropyState::skip;
    }
    bool offers(uint32_t offered, uint32_t plane) const {
        return (offered >> plane & 1) && !excluded.count(plane);
    }

    // Judges a choice of the selector by the rules, whatever turn it is.
    void check(uint32_t offered, const std::optional<PathChoice>& choice) const {
        bool any_available = false, any_failed = false;
        for (uint32_t index = 0; index < states.size(); ++index) {
            if (!offers(offered, index % planes)) continue;
            any_available |= available(index);
            any_failed |= states[index] == EntropyState::assumed_bad;
        }
        ASSERT_EQ(choice.has_value(), any_available || any_failed);
        if (!choice) return;
        ASSERT_LT(choice->entropy_index, states.size());
        ASSERT_EQ(choice->plane, choice->entropy_index % planes);
        ASSERT_TRUE(offers(offered, choice->plane));
        if (any_available) {
            ASSERT_TRUE(available(choice->entropy_index));
            return;
        }
        const auto oldest = std::find_if(failed.begin(), failed.end(),
                                         [&](uint32_t index) { return index % planes == choice->plane; });
        ASSERT_NE(oldest, failed.end());
        ASSERT_EQ(choice->entropy_index, *oldest);
    }
};

void run(uint64_t seed, uint32_t planes, uint32_t values) {
    SpraySelector selector;
    ASSERT_TRUE(selector.configure({SprayPolicy::spray, planes, values, static_cast<uint32_t>(seed), 4}));
    Model model(planes, values);
    std::mt19937_64 random(seed);
    uint32_t denied = 0;
    for (int step = 0; step < 20000; ++step) {
        const auto index = static_cast<uint32_t>(random() % values);
        const uint32_t plane = index % planes;
        switch (random() % 16) {
            case 0:
            case 1: selector.on_loss(index), model.lose(index); break;
            case 2:
            case 3: selector.on_probe_returned(index), model.return_probe(index); break;
            case 4: selector.on_ack(index, false), model.acknowledge(index, false); break;
            case 5: selector.on_ack(index, true), model.acknowledge(index, true); break;
            case 6:
                if (random() % 8 == 0) selector.exclude_plane(plane), model.excluded.insert(plane);
                break;
            case 7:
                if (random() % 4 == 0) selector.restore_plane(plane), model.restore(plane);
                break;
            case 8:
                if (random() % 256 == 0 && denied < values / 2)
                    selector.deny(index), model.deny(index), ++denied;
                break;
            default: {
                const auto offered = static_cast<uint32_t>(random() % 256);
                const auto choice = selector.choose(offered);
                model.check(offered, choice);
                // Values passed over are good again: nothing but a skip may have ended.
                for (uint32_t i = 0; i < values; ++i) {
                    if (selector.state(i) == model.states[i]) continue;
                    ASSERT_EQ(model.states[i], EntropyState::skip);
                    ASSERT_EQ(selector.state(i), EntropyState::good);
                    model.states[i] = EntropyState::good;
                }
            }
        }
        ASSERT_EQ(selector.assumed_bad_count(), model.failed.size());
        ASSERT_EQ(selector.plane_suspect(plane), !model.excluded.count(plane) && model.losses[plane] >= 4);
        if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(SprayModel, KeepsTheRulesUnderRandomFeedback) {
    const uint64_t seed = test::seed_or(30);
    SCOPED_TRACE(test::seed_message(seed));
    for (uint32_t planes = 1; planes <= 8; ++planes)
        for (uint32_t per_plane : {1u, 3u, 32u}) {
            run(seed, planes, planes * per_plane);
            if (HasFatalFailure()) FAIL() << planes << " planes of " << per_plane;
        }
}

}  // namespace
}  // namespace plait::engines
