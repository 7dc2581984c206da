// Commands and answers of the spray selectors of a device, with the credit of its planes.
#pragma once

#include <cstdint>
#include <ostream>

#include <plait/engines/spray.hpp>
#include <plait/regmap.hpp>

namespace plait::sim {

struct SprayCommand {
    regmap::SprayOpcode opcode = regmap::SprayOpcode::choose;
    uint32_t qp = 0;
    uint8_t up = 0;      ///< choose, due: planes that are up.
    uint16_t bytes = 0;  ///< choose, credit.
    uint8_t plane = 0;   ///< gone, exclude, restore, credit.
    uint8_t index = 0;   ///< Entropy index: acknowledged, lost, probe_returned, deny, path.
    bool flag = false;   ///< gone: it arrived; acknowledged: it was marked.
    engines::SprayConfig config{.policy = {}, .planes = 0, .entropy_values = 0, .suspect_losses = 0};

    friend std::ostream& operator<<(std::ostream& out, const SprayCommand& command) {
        return out << "opcode " << static_cast<int>(command.opcode) << " qp " << command.qp << " up "
                   << int{command.up} << " bytes " << command.bytes << " plane " << int{command.plane}
                   << " index " << int{command.index} << (command.flag ? " flag" : "") << " policy "
                   << static_cast<int>(command.config.policy) << " planes " << command.config.planes
                   << " values " << command.config.entropy_values << " seed " << command.config.seed
                   << " losses " << command.config.suspect_losses;
    }
};

struct SprayAnswer {
    regmap::Status status = regmap::Status::ok;
    bool granted = false;  ///< There is a path.
    engines::PathChoice path{};
    uint8_t due = 0;      ///< choose, due.
    uint8_t usable = 0;   ///< Planes that are not excluded,
    uint8_t suspect = 0;  ///< that lost too many packets,
    uint32_t failed = 0;  ///< and values assumed bad, after the command.

    bool operator==(const SprayAnswer& other) const {
        return status == other.status && granted == other.granted &&
               path.entropy_index == other.path.entropy_index && path.entropy == other.path.entropy &&
               path.plane == other.path.plane && due == other.due && usable == other.usable &&
               suspect == other.suspect && failed == other.failed;
    }
    friend std::ostream& operator<<(std::ostream& out, const SprayAnswer& answer) {
        return out << "status " << static_cast<int>(answer.status) << (answer.granted ? " granted" : "")
                   << " index " << answer.path.entropy_index << std::hex << " entropy " << answer.path.entropy
                   << std::dec << " plane " << int{answer.path.plane} << " due " << int{answer.due}
                   << " usable " << int{answer.usable} << " suspect " << int{answer.suspect} << " failed "
                   << answer.failed;
    }
};

/// What a selector says of itself after any command.
inline void add_state(SprayAnswer& answer, const engines::SpraySelector& selector) {
    answer.usable = static_cast<uint8_t>(selector.usable_planes());
    for (uint32_t plane = 0; plane < regmap::max_planes; ++plane)
        if (selector.plane_suspect(plane)) answer.suspect |= static_cast<uint8_t>(1U << plane);
    answer.failed = selector.assumed_bad_count();
}

}  // namespace plait::sim
