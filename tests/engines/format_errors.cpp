// Prints the table of docs/formats.md: the error of each row format against the numbers before BF16, in
// double. `--check PAGE` fails unless the page has exactly this table. No function of libm takes part but the
// square root, which is exact, so that every machine prints the same.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <plait/engines/bf16.hpp>
#include <plait/engines/quantise.hpp>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace plait::engines;

constexpr size_t hidden = 7168;
constexpr size_t rows = 64;

/// Activations: about normal (twelve uniform numbers added up); of the heavy ones every 100th channel or so
/// is 2 to 64 times as large, the same in all rows.
std::vector<std::vector<double>> activations(bool heavy) {
    std::mt19937 random(7);
    std::vector<double> gain(hidden, 1.0);
    for (double& channel : gain)
        if (random() % 100 == 0 && heavy) channel = static_cast<double>(2u << random() % 6);
    std::vector<std::vector<double>> result(rows, std::vector<double>(hidden));
    for (auto& row : result)
        for (size_t i = 0; i < hidden; ++i) {
            double sum = -6;
            for (int part = 0; part < 12; ++part) sum += static_cast<double>(random()) * 0x1p-32;
            row[i] = gain[i] * sum;
        }
    return result;
}

struct Errors {
    double mean;   ///< of |error / value|
    double max;    ///< of the same
    double noise;  ///< root of the error's energy over that of the values
    double zeros;  ///< share of the values that become zero
};

Errors errors_of(RowFormat format, const std::vector<std::vector<double>>& values) {
    double sum = 0, max = 0, noise = 0, energy = 0, zeros = 0;
    std::vector<std::byte> codes(code_bytes(format, hidden)), scales(scale_bytes(format, hidden));
    std::vector<uint16_t> bf16(hidden);
    std::vector<float> decoded(hidden);
    for (const auto& row : values) {
        for (size_t i = 0; i < hidden; ++i) bf16[i] = float_to_bf16(static_cast<float>(row[i]));
        encode_row(format, std::span<const uint16_t>(bf16), codes, scales);
        decode_row({format, codes, scales}, std::span(decoded));
        for (size_t i = 0; i < hidden; ++i) {
            const double error = static_cast<double>(decoded[i]) - row[i];
            const double relative = std::fabs(error / row[i]);
            sum += relative;
            max = std::max(max, relative);
            noise += error * error;
            energy += row[i] * row[i];
            zeros += decoded[i] == 0 ? 1 : 0;
        }
    }
    constexpr double count = rows * hidden;
    return {sum / count, max, std::sqrt(noise / energy), zeros / count};
}

std::string table() {
    constexpr struct {
        const char* name;
        RowFormat format;
    } formats[] = {{"bf16", RowFormat::bf16},
                   {"logfmt10", RowFormat::logfmt10},
                   {"logfmt8", RowFormat::logfmt8},
                   {"e4m3_f32", RowFormat::e4m3_f32},
                   {"e4m3_ue8m0", RowFormat::e4m3_ue8m0},
                   {"e5m2_f32", RowFormat::e5m2_f32},
                   {"e5m2_ue8m0", RowFormat::e5m2_ue8m0}};
    std::string text =
        "| activations | format | bytes of a row | mean error | largest error | noise | become zero |\n"
        "|---|---|---|---|---|---|---|\n";
    for (const bool heavy : {false, true}) {
        const auto values = activations(heavy);
        for (const auto& [name, format] : formats) {
            const Errors errors = errors_of(format, values);
            char line[200];
            std::snprintf(line, sizeof line, "| %s | %s | %zu | %.3f %% | %.2f %% | %.3f %% | %.3f %% |\n",
                          heavy ? "heavy channels" : "even", name,
                          code_bytes(format, hidden) + scale_bytes(format, hidden), 100 * errors.mean,
                          100 * errors.max, 100 * errors.noise, 100 * errors.zeros);
            text += line;
        }
    }
    return text;
}

}  // namespace

int main(int count, char** arguments) {
    const std::string expected = table();
    if (count == 3 && std::string_view(arguments[1]) == "--check") {
        std::ifstream page(arguments[2]);
        const std::string text{std::istreambuf_iterator<char>(page), {}};
        if (text.find("\n\n" + expected + "\n") != std::string::npos) return 0;
        std::fprintf(stderr, "%s lacks this table:\n%s", arguments[2], expected.c_str());
        return 1;
    }
    std::fputs(expected.c_str(), stdout);
    return 0;
}
