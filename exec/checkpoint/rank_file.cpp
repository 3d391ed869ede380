#include "exec/checkpoint/rank_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "exec/checkpoint/checksum.hpp"

namespace orrery {
namespace {

constexpr std::string_view magic = "ORRYRANK";
constexpr std::uint32_t file_version = 1;
constexpr std::uint64_t checksum_bytes = 4;

using Head = std::array<std::byte, rank_file_head>;

template <class T>
void put(std::span<std::byte> to, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) to[at + i] = static_cast<std::byte>((value >> (8 * i)) & 0xffU);
}

template <class T>
T number_at(std::span<const std::byte> from, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<T>(from[at + i]) << (8 * i));
  return value;
}

/// The seed of a block's checksum, which ties the block to this file and this place.
std::uint32_t block_seed(std::uint32_t file_seed, std::uint64_t block) {
  std::array<std::byte, 8> number{};
  put(number, 0, block);
  return crc32_of(number, file_seed);
}

/// Adds a block's checksum to that of the file.
std::uint32_t with_block(std::uint32_t file, std::uint32_t block) {
  std::array<std::byte, 4> bytes{};
  put(bytes, 0, block);
  return crc32_of(bytes, file);
}

}  // namespace

RankFileWriter::RankFileWriter(std::unique_ptr<OutputFile> file, std::uint32_t rank, std::uint64_t step,
                               const std::vector<StatePart>& parts)
    : file_(std::move(file)) {
  const std::string directory = write_directory(parts);
  std::uint64_t data = 0;
  for (const StatePart& p : parts) data += bytes_of(p);
  left_ = directory.size() + data;
  entry_.bytes = rank_file_bytes(left_);
  Head head{};
  std::memcpy(head.data(), magic.data(), magic.size());
  put(head, 8, file_version);
  put(head, 12, rank);
  put(head, 16, step);
  put(head, 24, static_cast<std::uint64_t>(directory.size()));
  put(head, 32, data);
  put(head, 40, static_cast<std::uint32_t>(rank_file_block));
  seed_ = crc32_of(std::span(head).first(44));
  put(head, 44, seed_);
  entry_.checksum = seed_;
  file_->append(head);
  block_.reserve(rank_file_block + checksum_bytes);
  append(std::as_bytes(std::span(directory)));
}

void RankFileWriter::append(std::span<const std::byte> bytes) {
  ORRERY_ASSERT(bytes.size() <= left_, bytes.size(), left_);
  left_ -= bytes.size();
  while (!bytes.empty()) {
    const std::size_t n = std::min<std::size_t>(bytes.size(), rank_file_block - block_.size());
    block_.insert(block_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
    bytes = bytes.subspan(n);
    if (block_.size() == rank_file_block) end_block();
  }
}

void RankFileWriter::end_block() {
  const std::uint32_t checksum = crc32_of(block_, block_seed(seed_, block_number_++));
  entry_.checksum = with_block(entry_.checksum, checksum);
  std::array<std::byte, checksum_bytes> bytes{};
  put(bytes, 0, checksum);
  block_.insert(block_.end(), bytes.begin(), bytes.end());
  file_->append(block_);
  block_.clear();
}

RankFileEntry RankFileWriter::finish() {
  ORRERY_ASSERT(left_ == 0, left_);
  if (!block_.empty()) end_block();
  file_->sync();
  return entry_;
}

RankFileReader::RankFileReader(std::unique_ptr<InputFile> file, std::filesystem::path path, std::uint32_t rank,
                               std::uint64_t step, const RankFileEntry& entry)
    : file_(std::move(file)), path_(std::move(path)), entry_(entry) {
  if (file_->size() != entry.bytes) {
    damaged(fmt::format("it ends at byte {}, not {}", file_->size(), entry.bytes));
  }
  Head head{};
  if (file_->read(0, head) != head.size()) damaged(fmt::format("it has no room for a head of {} bytes", head.size()));
  seed_ = crc32_of(std::span(head).first(44));
  const auto kept = number_at<std::uint32_t>(head, 44);
  if (std::memcmp(head.data(), magic.data(), magic.size()) != 0) damaged("it does not begin as a rank's file (byte 0)");
  if (seed_ != kept) {
    damaged(fmt::format("the head (bytes 0 to 43) has the checksum {:08x}, but byte 44 says {:08x}", seed_, kept));
  }
  if (const auto version = number_at<std::uint32_t>(head, 8); version != file_version) {
    throw Error(fmt::format("{} is version {} of a rank's file; this program reads version {}", path_.string(), version,
                            file_version));
  }
  const auto own_rank = number_at<std::uint32_t>(head, 12);
  const auto own_step = number_at<std::uint64_t>(head, 16);
  if (own_rank != rank || own_step != step) {
    damaged(fmt::format("it belongs to rank {} after step {}, not to rank {} after step {}", own_rank, own_step, rank,
                        step));
  }
  directory_ = number_at<std::uint64_t>(head, 24);
  const auto data = number_at<std::uint64_t>(head, 32);
  if (directory_ > entry.bytes || data > entry.bytes || rank_file_bytes(directory_ + data) != entry.bytes ||
      number_at<std::uint32_t>(head, 40) != rank_file_block) {
    damaged("the sizes in its head do not match the file");
  }
  payload_ = directory_ + data;
  std::string text(directory_, '\0');
  read_payload(0, std::as_writable_bytes(std::span(text)));
  Diagnostics d;
  auto parts = read_directory(text, path_.string(), d);
  if (!parts) damaged("its directory cannot be read: " + d.list().front().message);
  parts_ = *std::move(parts);
  std::uint64_t at = directory_;
  for (const StatePart& p : parts_) {
    begins_.push_back(at);
    if (bytes_of(p) > payload_ - at) damaged("its directory reaches beyond its end");
    at += bytes_of(p);
  }
  if (at != payload_) damaged("its directory does not reach its end");
}

void RankFileReader::damaged(const std::string& what) const {
  throw Damaged(fmt::format("{} is damaged: {}", path_.string(), what));
}

void RankFileReader::load_block(std::uint64_t number) {
  if (number == block_number_) return;
  const std::uint64_t size = std::min(rank_file_block, payload_ - number * rank_file_block);
  const std::uint64_t at = rank_file_head + number * (rank_file_block + checksum_bytes);
  block_number_ = ~std::uint64_t{0};
  block_.resize(size + checksum_bytes);
  if (const std::size_t n = file_->read(at, block_); n != block_.size()) {
    damaged(fmt::format("it ends at byte {}, inside a block", at + n));
  }
  block_checksum_ = crc32_of(std::span(block_).first(size), block_seed(seed_, number));
  if (const auto kept = number_at<std::uint32_t>(block_, size); kept != block_checksum_) {
    damaged(fmt::format("bytes {} to {} have the checksum {:08x}, but byte {} says {:08x}", at, at + size - 1,
                        block_checksum_, at + size, kept));
  }
  block_number_ = number;
}

void RankFileReader::read_payload(std::uint64_t at, std::span<std::byte> to) {
  while (!to.empty()) {
    load_block(at / rank_file_block);
    const std::uint64_t inside = at % rank_file_block;
    const std::size_t n = std::min<std::size_t>(to.size(), block_.size() - checksum_bytes - inside);
    std::memcpy(to.data(), block_.data() + inside, n);
    to = to.subspan(n);
    at += n;
  }
}

void RankFileReader::read(std::size_t number, std::uint64_t at, std::span<std::byte> to) {
  ORRERY_ASSERT(at <= bytes_of(parts_[number]) && to.size() <= bytes_of(parts_[number]) - at, at, to.size());
  read_payload(begins_[number] + at, to);
}

void RankFileReader::verify() {
  std::uint32_t checksum = seed_;
  for (std::uint64_t b = 0; b * rank_file_block < payload_; ++b) {
    load_block(b);
    checksum = with_block(checksum, block_checksum_);
  }
  if (checksum != entry_.checksum) {
    damaged(fmt::format(
        "the checksum of all its blocks is {:08x}, but the manifest says {:08x}: it belongs to another checkpoint",
        checksum, entry_.checksum));
  }
}

}  // namespace orrery
