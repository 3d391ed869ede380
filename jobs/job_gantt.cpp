#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/markup.hpp"
#include "jobs/job_drawings.hpp"

namespace orrery {
namespace {

// All lengths in SVG user units (pixels at 100 %).
constexpr double left = 70.0, width = 900.0, right = 20.0;
constexpr double heading = 44.0, row_height = 12.0, between_nodes = 4.0, axis = 34.0;
constexpr std::size_t most_bars = 20'000;
constexpr std::uint32_t most_gpus = 128;

// Colours of Okabe and Ito, told apart by colour-blind readers.
constexpr std::array colours = {"#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#6e7781"};

/// Spans of time from which the first that gives at most eight marks is taken, in seconds.
constexpr std::array steps = {1.0,     2.0,      5.0,      10.0,     30.0,      60.0,      120.0,     300.0,
                              600.0,   1800.0,   3600.0,   7200.0,   18000.0,   43200.0,   86400.0,   172800.0,
                              604800., 1209600., 2419200., 7776000., 15552000., 31536000., 63072000., 157680000.};

std::string time_text(double seconds) {
  if (seconds >= 86400.0) return fmt::format("{:g} d", seconds / 86400.0);
  if (seconds >= 3600.0) return fmt::format("{:g} h", seconds / 3600.0);
  return seconds >= 60.0 ? fmt::format("{:g} min", seconds / 60.0) : fmt::format("{:g} s", seconds);
}

class Picture {
 public:
  Picture(const JobWorkload& workload, const std::vector<std::uint32_t>& gpus_of_nodes, Microseconds begin,
          Microseconds end)
      : workload_(workload), begin_(begin), scale_(width / std::max(1e-6, seconds_of(end - begin))) {
    std::uint32_t drawn = 0;
    for (const std::uint32_t gpus : gpus_of_nodes) {
      if (drawn > 0 && drawn + gpus > most_gpus) break;
      tops_.push_back(height_);
      sizes_.push_back(gpus);
      height_ += gpus * row_height + between_nodes;
      drawn += gpus;
    }
    span_ = seconds_of(end - begin);
  }

  [[nodiscard]] double panel() const { return heading + height_ + axis; }

  std::string panel_of(const DrawnHistory& h, double top, const std::vector<std::uint32_t>& gpus_of_nodes) const {
    const std::vector<GpuSpan> spans = gpu_spans(h.history->stretches, gpus_of_nodes);
    std::string bars;
    std::size_t drawn = 0, wanted = 0;
    for (const GpuSpan& span : spans) {
      if (span.node >= tops_.size()) continue;
      ++wanted;
      if (drawn == most_bars) continue;
      ++drawn;
      bars += bar(span, top + heading);
    }
    std::string title = h.policy;
    if (tops_.size() < gpus_of_nodes.size()) {
      title += fmt::format(", the first {} of {} nodes", tops_.size(), gpus_of_nodes.size());
    }
    if (drawn < wanted) title += fmt::format(", the first {} of {} bars", drawn, wanted);
    return fmt::format("<text x=\"{}\" y=\"{:.2f}\" font-size=\"14\" font-weight=\"bold\">{}</text>\n", left,
                       top + 28.0, marked_up(title)) +
           nodes(top + heading) + bars + marks(top + heading);
  }

 private:
  [[nodiscard]] double x_of(Microseconds t) const { return left + seconds_of(t - begin_) * scale_; }

  [[nodiscard]] std::string bar(const GpuSpan& span, double top) const {
    const double x = x_of(span.begin), wide = std::max(0.2, x_of(span.end) - x);
    const double y = top + tops_[span.node] + span.gpu * row_height, high = span.gpus * row_height - 1.0;
    const std::string name = marked_up(workload_.jobs[span.job].name);
    std::string out = fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"><title>{}: {} GPUs, {} to "
        "{}</title></rect>\n",
        x, y, wide, high, colours[span.job % colours.size()], name, span.job_gpus,
        time_text(seconds_of(span.begin - begin_)), time_text(seconds_of(span.end - begin_)));
    // A character of this size is some 5.5 wide.
    if (wide > 5.5 * static_cast<double>(workload_.jobs[span.job].name.size()) + 4.0) {
      out += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"9\" fill=\"#ffffff\">{}</text>\n", x + 2.0,
                         y + 9.0, name);
    }
    return out;
  }

  [[nodiscard]] std::string nodes(double top) const {
    std::string out;
    for (std::size_t node = 0; node < tops_.size(); ++node) {
      const double y = top + tops_[node], high = sizes_[node] * row_height;
      out += fmt::format("<rect x=\"{}\" y=\"{:.2f}\" width=\"{}\" height=\"{:.2f}\" fill=\"#f0f2f4\"/>\n", left, y,
                         width, high);
      out += fmt::format("<text x=\"{}\" y=\"{:.2f}\" text-anchor=\"end\">node {}</text>\n", left - 6.0,
                         y + high / 2.0 + 4.0, node);
    }
    return out;
  }

  [[nodiscard]] std::string marks(double top) const {
    double step = steps.back();
    for (const double s : steps) {
      if (span_ / s <= 8.0) {
        step = s;
        break;
      }
    }
    std::string out;
    for (double t = 0.0; t <= span_ * (1.0 + 1e-12); t += step) {
      const double x = left + t * scale_;
      out += fmt::format("<path d=\"M{:.2f} {:.2f}V{:.2f}\" stroke=\"#8b949e\" stroke-width=\"0.5\"/>\n", x, top,
                         top + height_);
      out += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"middle\">{}</text>\n", x, top + height_ + 14.0,
                         time_text(t));
    }
    return out;
  }

  const JobWorkload& workload_;
  Microseconds begin_;
  double scale_, span_ = 0.0, height_ = 0.0;
  std::vector<double> tops_;          ///< of the nodes that are drawn
  std::vector<std::uint32_t> sizes_;  ///< GPUs of these
};

}  // namespace

std::string job_gantt_svg(const std::vector<DrawnHistory>& histories, const JobWorkload& workload,
                          const std::vector<std::uint32_t>& gpus_of_nodes) {
  Microseconds begin = 0, end = 0;
  for (const DrawnHistory& h : histories) {
    begin = h.history->begin;
    end = std::max(end, h.history->end);
  }
  const Picture picture(workload, gpus_of_nodes, begin, end);
  const double high = picture.panel() * static_cast<double>(histories.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:.2f}\" viewBox=\"0 0 {0} {1:.2f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      left + width + right, high);
  for (std::size_t i = 0; i < histories.size(); ++i) {
    out += picture.panel_of(histories[i], picture.panel() * static_cast<double>(i), gpus_of_nodes);
  }
  return out + "</svg>\n";
}

}  // namespace orrery
