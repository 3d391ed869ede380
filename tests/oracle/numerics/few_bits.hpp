#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/program/program.hpp"
#include "core/spec/workload.hpp"
#include "exec/train/matrix.hpp"

// Frozen matrices in few bits, as QLoRA and its kin define them, written for the tests alone: codes are the nearest of
// all that there are, tried one by one.
namespace orrery::test {

/// What is stored of a matrix [rows, columns] on one rank.
struct FewBits {
  std::span<const std::byte> codes, scales;
};

/// The values that stored numbers stand for.
[[nodiscard]] std::vector<double> values_of(const FewBits&, const Adapters&, std::uint64_t count, std::uint64_t columns,
                                            DType as);

/// The same for what a matrix becomes when it is stored.
[[nodiscard]] std::vector<double> in_few_bits(const std::vector<double>&, const Adapters&, std::uint64_t columns,
                                              DType as);

/// Replaces each frozen matrix by what becomes of it when every rank stores its own part. The Program's tables say
/// which parts these are.
void store_in_few_bits(const Program&, const Workload&, ParameterSet&);

/// Columns of the matrix of such a table on one rank.
[[nodiscard]] std::uint64_t columns_of(const Program&, const ParameterTable&);

}  // namespace orrery::test
