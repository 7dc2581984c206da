#pragma once
// The cells of arithmetic, Verilated one by one. Numbers go in and out as their bits.

#include <Vplait_fp32_add.h>
#include <Vplait_fp32_divide.h>
#include <Vplait_fp32_multiply.h>
#include <Vplait_fp8_decode.h>
#include <Vplait_fp8_encode.h>

#include <cstdint>
#include <memory>

#include "verilated_block.hpp"

namespace plait::contract {

template <typename Model>
class VerilatedCell {
  public:
    ~VerilatedCell() {
        model_->final();
#ifdef PLAIT_RTL_COVERAGE
        sim::write_coverage(*context_);
#endif
    }

  protected:
    std::unique_ptr<VerilatedContext> context_ = std::make_unique<VerilatedContext>();
    std::unique_ptr<Model> model_ = std::make_unique<Model>(context_.get());

    void tick() {
        model_->clk_i = 0;
        model_->eval();
        model_->clk_i = 1;
        model_->eval();
    }
};

class AddCell : VerilatedCell<Vplait_fp32_add> {
  public:
    uint32_t operator()(uint32_t a, uint32_t b) {
        model_->a_i = a;
        model_->b_i = b;
        model_->eval();
        return model_->sum_o;
    }
};

class MultiplyCell : VerilatedCell<Vplait_fp32_multiply> {
  public:
    static constexpr int latency_cycles = 2;

    uint32_t operator()(uint32_t a, uint32_t b) {
        model_->a_i = a;
        model_->b_i = b;
        for (int i = 0; i < latency_cycles; ++i) tick();
        return model_->product_o;
    }
};

class DivideCell : VerilatedCell<Vplait_fp32_divide> {
  public:
    static constexpr int latency_cycles = 8;

    uint32_t operator()(uint32_t a, uint32_t b) {
        model_->a_i = a;
        model_->b_i = b;
        for (int i = 0; i < latency_cycles; ++i) tick();
        return model_->quotient_o;
    }
};

class Fp8DecodeCell : VerilatedCell<Vplait_fp8_decode> {
  public:
    uint32_t operator()(bool is_e5m2, uint8_t code) {
        model_->is_e5m2_i = is_e5m2;
        model_->code_i = code;
        model_->eval();
        return model_->number_o;
    }
};

class Fp8EncodeCell : VerilatedCell<Vplait_fp8_encode> {
  public:
    uint8_t operator()(bool is_e5m2, uint32_t number) {
        model_->is_e5m2_i = is_e5m2;
        model_->number_i = number;
        model_->eval();
        return model_->code_o;
    }
};

}  // namespace plait::contract
