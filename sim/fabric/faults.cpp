#include <plait/sim/fabric/faults.hpp>

namespace plait::sim {
namespace {

std::string check_probability(const char* name, double probability) {
    if (probability >= 0 && probability <= 1) {
        return {};
    }
    return std::string(name) + " is " + std::to_string(probability) + ", not a probability from 0 to 1";
}

}  // namespace

std::string FaultInjector::validate(const FaultConfig& config) {
    const std::pair<const char*, double> probabilities[] = {{"loss", config.loss},
                                                            {"corruption", config.corruption},
                                                            {"duplication", config.duplication},
                                                            {"delay", config.delay}};
    for (const auto& [name, probability] : probabilities) {
        if (std::string message = check_probability(name, probability); !message.empty()) {
            return message;
        }
    }
    if (config.max_delay_ns > 1'000'000'000) {
        return "max_delay_ns is " + std::to_string(config.max_delay_ns) + ", more than a second";
    }
    if (config.delay > 0 && config.max_delay_ns == 0) {
        return "packets are to be delayed, but max_delay_ns is 0";
    }
    return {};
}

FaultInjector::FaultInjector(const FaultConfig& config, uint64_t seed)
    : config_(config),
      end_to_end_{Random(seed, "loss"), Random(seed, "corruption"), Random(seed, "duplication"),
                  Random(seed, "delay")},
      links_{Random(seed, "link loss"), Random(seed, "link corruption"), Random(seed, "link duplication"),
             Random(seed, "link delay")} {
    update_active();
}

void FaultInjector::configure(const FaultConfig& config) {
    config_ = config;
    update_active();
}

void FaultInjector::lose_nth(uint32_t source, uint32_t destination, uint64_t nth) {
    PairLosses& losses = scheduled_[{source, destination}];
    losses.lost.insert(losses.seen + nth);
    update_active();
}

void FaultInjector::impair(uint32_t port, const FaultConfig& impairment) {
    if (impairment.any()) {
        impairments_[port] = impairment;
    } else {
        impairments_.erase(port);
    }
}

void FaultInjector::update_active() { active_ = config_.any() || !scheduled_.empty(); }

FaultInjector::Verdict FaultInjector::draw(Streams& streams, const FaultConfig& config) {
    Verdict verdict;
    verdict.corrupt = streams.corruption.bernoulli(config.corruption);
    verdict.duplicate = streams.duplication.bernoulli(config.duplication);
    if (streams.delay.bernoulli(config.delay)) {
        verdict.delay_ps = 1 + streams.delay.uniform(config.max_delay_ns * 1000);
    }
    if (streams.loss.bernoulli(config.loss)) {
        verdict.drop = DropReason::random_loss;
    }
    return verdict;
}

FaultInjector::Verdict FaultInjector::judge(const FabricPacket& packet) {
    Verdict verdict = draw(end_to_end_, config_);
    const auto pair = scheduled_.find({packet.source, packet.destination});
    if (pair != scheduled_.end() && pair->second.lost.erase(++pair->second.seen) != 0) {
        verdict.drop = DropReason::scheduled_loss;
    }
    return verdict;
}

FaultInjector::Verdict FaultInjector::judge_link(uint32_t port) {
    const auto impairment = impairments_.find(port);
    return impairment != impairments_.end() ? draw(links_, impairment->second) : Verdict{};
}

}  // namespace plait::sim
