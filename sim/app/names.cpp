#include <plait/sim/app/scenario.hpp>

namespace plait::sim {

std::string_view name_of(PayloadMode mode) { return mode == PayloadMode::real ? "real" : "virtual"; }

std::string_view name_of(FirmwarePlace place) { return place == FirmwarePlace::native ? "native" : "riscv"; }

std::string_view name_of(EnginePlace place) { return place == EnginePlace::cpp ? "cpp" : "rtl"; }

std::string_view name_of(InstructionCounts counts) {
    return counts == InstructionCounts::declared ? "declared" : "measured";
}

std::string_view name_of(WorkloadKind kind) {
    switch (kind) {
        case WorkloadKind::ep: return "ep";
        case WorkloadKind::permutation: return "permutation";
        case WorkloadKind::alltoall: return "alltoall";
        case WorkloadKind::incast: return "incast";
    }
    return "unknown";
}

std::string_view name_of(RoutingKind kind) {
    switch (kind) {
        case RoutingKind::file: return "file";
        case RoutingKind::uniform: return "uniform";
        case RoutingKind::grouped: return "grouped";
        case RoutingKind::skewed: return "skewed";
    }
    return "unknown";
}

std::string_view name_of(regmap::EntryPolicy policy) {
    switch (policy) {
        case regmap::EntryPolicy::same_index: return "same_index";
        case regmap::EntryPolicy::spread: return "spread";
        case regmap::EntryPolicy::balanced: return "balanced";
        case regmap::EntryPolicy::target: return "target";
    }
    return "unknown";
}

std::string_view name_of(regmap::EpMode mode) {
    return mode == regmap::EpMode::normal ? "normal" : "low_latency";
}

std::string_view name_of(regmap::RowFormat format) { return regmap::name(format); }

std::string_view name_of(regmap::SprayPolicy policy) {
    switch (policy) {
        case regmap::SprayPolicy::spray: return "spray";
        case regmap::SprayPolicy::round_robin: return "round_robin";
        case regmap::SprayPolicy::single_path: return "single_path";
    }
    return "unknown";
}

}  // namespace plait::sim
