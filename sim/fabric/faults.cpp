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

std::string FaultInjector::validate(const LinkImpairment& impairment) {
    std::string message = check_probability("loss", impairment.loss);
    return message.empty() ? check_probability("corruption", impairment.corruption) : message;
}

FaultInjector::FaultInjector(const FaultConfig& config, uint64_t seed)
    : config_(config),
      loss_(seed, "loss"),
      corruption_(seed, "corruption"),
      duplication_(seed, "duplication"),
      delay_(seed, "delay"),
      link_loss_(seed, "link loss"),
      link_corruption_(seed, "link corruption") {
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

void FaultInjector::impair(uint32_t port, const LinkImpairment& impairment) {
    if (impairment.loss == 0 && impairment.corruption == 0) {
        impairments_.erase(port);
    } else {
        impairments_[port] = impairment;
    }
}

void FaultInjector::update_active() {
    active_ = config_.loss > 0 || config_.corruption > 0 || config_.duplication > 0 || config_.delay > 0 ||
              !scheduled_.empty();
}

FaultInjector::Verdict FaultInjector::judge(const FabricPacket& packet) {
    Verdict verdict;
    // Each stream is drawn from for each packet, so that one probability does not change what another one
    // hits.
    verdict.corrupt = corruption_.bernoulli(config_.corruption);
    verdict.duplicate = duplication_.bernoulli(config_.duplication);
    if (delay_.bernoulli(config_.delay)) {
        verdict.delay_ps = 1 + delay_.uniform(config_.max_delay_ns * 1000);
    }
    if (loss_.bernoulli(config_.loss)) {
        verdict.drop = DropReason::random_loss;
    }
    const auto pair = scheduled_.find({packet.source, packet.destination});
    if (pair != scheduled_.end() && pair->second.lost.erase(++pair->second.seen) != 0) {
        verdict.drop = DropReason::scheduled_loss;
    }
    return verdict;
}

FaultInjector::Verdict FaultInjector::judge_link(uint32_t port) {
    Verdict verdict;
    const auto impairment = impairments_.find(port);
    if (impairment != impairments_.end()) {
        if (link_loss_.bernoulli(impairment->second.loss)) {
            verdict.drop = DropReason::random_loss;
        }
        verdict.corrupt = link_corruption_.bernoulli(impairment->second.corruption);
    }
    return verdict;
}

}  // namespace plait::sim
