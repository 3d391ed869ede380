#include "exec/train/data.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/random.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t token_stream = stream_of("data.token");
constexpr std::uint64_t ignored_stream = stream_of("data.ignored");
constexpr std::uint64_t place_stream = stream_of("data.place");

constexpr std::uint64_t mask_stream = stream_of("data.mask");
constexpr std::uint64_t pixel_stream = stream_of("data.pixel");
constexpr std::uint64_t class_stream = stream_of("data.class");

std::uint64_t stream_at(std::uint64_t kind, std::uint64_t step, std::uint64_t sequence) {
  return mix(mix(kind ^ step) ^ sequence);
}

class MaskedData final : public DataSource {
 public:
  MaskedData(std::unique_ptr<DataSource> words, const ModelSpec& m, const Workload& w)
      : words_(std::move(words)),
        vocabulary_(m.vocabulary),
        segments_(std::max<std::uint64_t>(1, m.segments)),
        length_(w.sequence_length),
        chosen_(std::max<std::uint64_t>(1, (15 * length_ + 50) / 100)),
        seed_(w.seed) {}

  [[nodiscard]] std::int32_t token(std::uint64_t step, std::uint64_t sequence, std::uint64_t position) const override {
    const std::int32_t word = words_->token(step, sequence, position);
    if (!is_chosen(step, sequence, position)) return word;
    const std::uint64_t stream = stream_at(mask_stream, step, sequence);
    const double u = random_uniform(seed_, stream, 2 * length_ + position);
    if (u < 0.8) return static_cast<std::int32_t>(vocabulary_ - 1);
    if (u < 0.9) return static_cast<std::int32_t>(random_bits(seed_, stream, 3 * length_ + position) % vocabulary_);
    return word;
  }
  [[nodiscard]] std::int32_t target(std::uint64_t step, std::uint64_t sequence, std::uint64_t position) const override {
    return is_chosen(step, sequence, position) ? words_->token(step, sequence, position) : -1;
  }
  [[nodiscard]] std::int32_t segment(std::uint64_t, std::uint64_t, std::uint64_t position) const override {
    return static_cast<std::int32_t>(position * segments_ / length_);
  }

 private:
  [[nodiscard]] bool is_chosen(std::uint64_t step, std::uint64_t sequence, std::uint64_t position) const {
    const std::uint64_t stretch = position * chosen_ / length_;
    const std::uint64_t begin = (stretch * length_ + chosen_ - 1) / chosen_;
    const std::uint64_t end = ((stretch + 1) * length_ + chosen_ - 1) / chosen_;
    return begin + random_bits(seed_, stream_at(mask_stream, step, sequence), stretch) % (end - begin) == position;
  }

  std::unique_ptr<DataSource> words_;
  std::uint64_t vocabulary_, segments_, length_;
  std::uint64_t chosen_;  // of a sequence
  std::uint64_t seed_;
};

class ImageData final : public DataSource {
 public:
  ImageData(std::uint64_t classes, std::uint64_t seed) : classes_(classes), seed_(seed) {}

  [[nodiscard]] std::int32_t token(std::uint64_t, std::uint64_t, std::uint64_t) const override { return 0; }
  [[nodiscard]] std::int32_t target(std::uint64_t step, std::uint64_t sequence, std::uint64_t position) const override {
    if (position > 0) return -1;
    return static_cast<std::int32_t>(random_bits(seed_, mix(class_stream ^ step), sequence) % classes_);
  }
  [[nodiscard]] double pixel(std::uint64_t step, std::uint64_t sequence, std::uint64_t position,
                             std::uint64_t at) const override {
    return 2.0 * random_uniform(seed_, mix(stream_at(pixel_stream, step, sequence) ^ position), at) - 1.0;
  }

 private:
  std::uint64_t classes_;
  std::uint64_t seed_;
};

class SyntheticData final : public DataSource {
 public:
  SyntheticData(std::uint64_t vocabulary, std::uint64_t seed, double ignored)
      : vocabulary_(vocabulary), seed_(seed), ignored_(ignored) {}

  [[nodiscard]] std::int32_t token(std::uint64_t step, std::uint64_t sequence, std::uint64_t position) const override {
    const std::uint64_t bits = random_bits(seed_, stream(token_stream, step, sequence), position);
    return static_cast<std::int32_t>(bits % vocabulary_);
  }

  [[nodiscard]] std::int32_t target(std::uint64_t step, std::uint64_t sequence, std::uint64_t position) const override {
    if (random_uniform(seed_, stream(ignored_stream, step, sequence), position) < ignored_) return -1;
    return token(step, sequence, position + 1);
  }

 private:
  static std::uint64_t stream(std::uint64_t kind, std::uint64_t step, std::uint64_t sequence) {
    return mix(mix(kind ^ step) ^ sequence);
  }

  std::uint64_t vocabulary_;
  std::uint64_t seed_;
  double ignored_;
};

class TextData final : public DataSource {
 public:
  TextData(std::vector<unsigned char> bytes, std::uint64_t length, std::uint64_t seed)
      : bytes_(std::move(bytes)), places_(bytes_.size() - length), seed_(seed) {}

  [[nodiscard]] std::int32_t token(std::uint64_t step, std::uint64_t sequence, std::uint64_t position) const override {
    return bytes_[random_bits(seed_, mix(place_stream ^ step), sequence) % places_ + position];
  }

  [[nodiscard]] std::int32_t target(std::uint64_t step, std::uint64_t sequence, std::uint64_t position) const override {
    return token(step, sequence, position + 1);
  }

 private:
  std::vector<unsigned char> bytes_;
  std::uint64_t places_;  // where a sequence and its last target fit
  std::uint64_t seed_;
};

}  // namespace

std::int32_t DataSource::segment(std::uint64_t, std::uint64_t, std::uint64_t) const { return 0; }
double DataSource::pixel(std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t) const { return 0.0; }

std::unique_ptr<DataSource> masked_data(std::unique_ptr<DataSource> words, const ModelSpec& model,
                                        const Workload& workload) {
  ORRERY_ASSERT(workload.sequence_length > 0 && model.vocabulary > 0);
  return std::make_unique<MaskedData>(std::move(words), model, workload);
}

std::unique_ptr<DataSource> image_data(std::uint64_t classes, std::uint64_t seed) {
  ORRERY_ASSERT(classes > 0 && classes <= std::numeric_limits<std::int32_t>::max(), classes);
  return std::make_unique<ImageData>(classes, seed);
}

std::unique_ptr<DataSource> synthetic_data(std::uint64_t vocabulary, std::uint64_t seed, double ignored) {
  ORRERY_ASSERT(vocabulary > 0 && vocabulary <= std::numeric_limits<std::int32_t>::max(), vocabulary);
  ORRERY_ASSERT(ignored >= 0.0 && ignored <= 1.0, ignored);
  return std::make_unique<SyntheticData>(vocabulary, seed, ignored);
}

std::unique_ptr<DataSource> text_data(const std::string& path, std::uint64_t vocabulary, std::uint64_t length,
                                      std::uint64_t seed) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(path + ": cannot open the token file: " + std::strerror(errno));
  std::vector<unsigned char> bytes;
  std::array<char, 65536> chunk{};
  while (in.read(chunk.data(), chunk.size()) || in.gcount() > 0) {
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + in.gcount());
  }
  if (in.bad()) throw Error(path + ": cannot read the token file; is it a directory?");
  if (bytes.size() <= length) {
    throw Error(path + ": the token file has " + std::to_string(bytes.size()) + " bytes; a sequence of " +
                std::to_string(length) + " tokens and its last target need " + std::to_string(length + 1));
  }
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] >= vocabulary) {
      throw Error(path + ": byte " + std::to_string(i) + " of the token file is " + std::to_string(bytes[i]) +
                  ", but the model's vocabulary is " + std::to_string(vocabulary) +
                  "; a vocabulary of 256 takes every byte");
    }
  }
  return std::make_unique<TextData>(std::move(bytes), length, seed);
}

std::unique_ptr<DataSource> data_of(const ModelSpec& model, const Workload& workload) {
  if (model.architecture == Architecture::vit) return image_data(model.vocabulary, workload.seed);
  std::unique_ptr<DataSource> words =
      workload.data.empty() ? synthetic_data(model.vocabulary, workload.seed)
                            : text_data(workload.data, model.vocabulary, workload.sequence_length, workload.seed);
  if (model.architecture == Architecture::bert) return masked_data(std::move(words), model, workload);
  return words;
}

std::int32_t token_ahead(const DataSource& data, const Workload& workload, std::uint64_t step, std::uint64_t sequence,
                         std::uint64_t position, std::uint64_t ahead) {
  return position + ahead < workload.sequence_length ? data.token(step, sequence, position + ahead) : 0;
}

std::int32_t target_ahead(const DataSource& data, const Workload& workload, std::uint64_t step, std::uint64_t sequence,
                          std::uint64_t position, std::uint64_t ahead) {
  return position + ahead < workload.sequence_length ? data.target(step, sequence, position + ahead) : -1;
}

std::uint64_t count_targets(const DataSource& data, const Workload& workload, std::uint64_t step, std::uint64_t ahead) {
  std::uint64_t count = 0;
  for (std::uint64_t sequence = 0; sequence < workload.global_batch; ++sequence) {
    for (std::uint64_t position = 0; position < workload.sequence_length; ++position) {
      if (target_ahead(data, workload, step, sequence, position, ahead) >= 0) ++count;
    }
  }
  return count;
}

}  // namespace orrery
