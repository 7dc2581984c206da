#include <iostream>

#include <plait/sim/app/command_line.hpp>

int main(int argc, char** argv) { return plait::sim::run_command_line(argc, argv, std::cout, std::cerr); }
