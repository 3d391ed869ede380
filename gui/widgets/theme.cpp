#include "gui/widgets/theme.hpp"

#include <QApplication>
#include <QWidget>
#include <algorithm>
#include <iterator>

#include "gui/model/timeline_strip.hpp"

namespace orrery::gui {
namespace {

QColor mixed(const QColor& a, const QColor& b, double share) {
  const auto part = [share](int x, int y) { return static_cast<int>(x + (y - x) * share); };
  return {part(a.red(), b.red()), part(a.green(), b.green()), part(a.blue(), b.blue())};
}

// These are Okabe and Ito's eight, with black replaced by grey so that it shows on both backgrounds.
const QColor orange(230, 159, 0), sky(86, 180, 233), green(0, 158, 115), yellow(240, 228, 66), blue(0, 114, 178),
    vermilion(213, 94, 0), purple(204, 121, 167), grey(140, 140, 140);

}  // namespace

QPalette palette_of(bool dark) {
  const QColor window = dark ? QColor(37, 39, 43) : QColor(246, 247, 249);
  const QColor base = dark ? QColor(27, 29, 32) : QColor(255, 255, 255);
  const QColor text = dark ? QColor(226, 228, 232) : QColor(28, 31, 36);
  const QColor button = dark ? QColor(52, 55, 61) : QColor(236, 238, 242);
  const QColor accent = dark ? QColor(60, 140, 200) : QColor(0, 104, 166);
  QPalette p(text, button, mixed(button, Qt::white, 0.3), mixed(button, Qt::black, 0.4), mixed(button, Qt::black, 0.2),
             text, Qt::white, base, window);
  p.setColor(QPalette::Highlight, accent);
  p.setColor(QPalette::HighlightedText, Qt::white);
  p.setColor(QPalette::AlternateBase, mixed(base, window, 0.6));
  p.setColor(QPalette::ToolTipBase, base);
  p.setColor(QPalette::ToolTipText, text);
  p.setColor(QPalette::PlaceholderText, mixed(text, base, 0.5));
  p.setColor(QPalette::Link, accent);
  for (const auto role : {QPalette::Text, QPalette::WindowText, QPalette::ButtonText}) {
    p.setColor(QPalette::Disabled, role, mixed(text, window, 0.6));
  }
  p.setColor(QPalette::Disabled, QPalette::Highlight, mixed(accent, window, 0.6));
  return p;
}

bool is_dark(const QPalette& p) { return p.color(QPalette::Window).lightness() < 128; }

QColor slice_colour(std::uint8_t key, bool dark) {
  static const QColor kinds[slice_kind_count] = {sky, blue, green, yellow, purple, vermilion, orange, grey, sky};
  static const QColor turns[microbatch_colours] = {sky,       orange, green, purple, QColor(120, 148, 60),
                                                   vermilion, yellow, blue};
  const QColor background = dark ? QColor(27, 29, 32) : QColor(255, 255, 255);
  if (key < slice_kind_count) return mixed(kinds[key], background, 0.1);
  const std::size_t turn = key - slice_kind_count;
  // Forward is pale, backward strong.
  const QColor plain = turns[turn % microbatch_colours];
  return turn < microbatch_colours ? mixed(plain, background, 0.5) : plain;
}

QColor role_colour(std::size_t role) {
  static const QColor roles[] = {blue, orange, green, sky, purple, yellow, grey};
  return roles[role % std::size(roles)];
}

QColor group_colour(std::size_t coordinate) {
  static const QColor turns[] = {sky, orange, green, purple, yellow, vermilion, blue, grey};
  return turns[coordinate % std::size(turns)];
}

QColor load_colour(double load, const QPalette& p) {
  const QColor none = mixed(p.color(QPalette::WindowText), p.color(QPalette::Base), 0.75);
  const double share = std::clamp(load, 0.0, 1.0);
  return share < 0.5 ? mixed(none, orange, 2.0 * share) : mixed(orange, QColor(176, 40, 0), 2.0 * share - 1.0);
}

QColor bad_colour(bool dark) { return dark ? QColor(255, 128, 80) : QColor(190, 66, 0); }
QColor good_colour(bool dark) { return dark ? QColor(70, 200, 150) : QColor(0, 122, 88); }
QColor faint(const QPalette& p) { return mixed(p.color(QPalette::WindowText), p.color(QPalette::Window), 0.35); }

void set_greyed(QWidget& panel, bool on) {
  QPalette own;  // of the roles that are set here alone
  if (on) {
    const QColor text = faint(QApplication::palette());
    for (const auto role : {QPalette::Text, QPalette::WindowText, QPalette::ButtonText}) own.setColor(role, text);
  }
  panel.setPalette(own);
}

}  // namespace orrery::gui
