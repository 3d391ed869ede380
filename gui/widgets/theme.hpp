#pragma once

#include <QColor>
#include <QPalette>
#include <cstdint>

namespace orrery::gui {

/// Palette of the whole program.  Qt 6.4 does not know what the desktop prefers, so the program chooses.
[[nodiscard]] QPalette palette_of(bool dark);
[[nodiscard]] bool is_dark(const QPalette&);

// Colours that tell things apart, safe for colour-blind eyes: Okabe and Ito, "Color universal design", 2008.

/// Of a colour key (timeline_strip.hpp).
[[nodiscard]] QColor slice_colour(std::uint8_t key, bool dark);
/// Of a role of memory (tables.hpp).
[[nodiscard]] QColor role_colour(std::size_t role);
/// Of what is over a limit, better or worse.
[[nodiscard]] QColor bad_colour(bool dark);
[[nodiscard]] QColor good_colour(bool dark);
/// Of the members of one group, of each coordinate along an axis in turn.
[[nodiscard]] QColor group_colour(std::size_t coordinate);
/// Of a link that is busy for a share of the time, from 0 to 1; lines grow wider with it too.
[[nodiscard]] QColor load_colour(double load, const QPalette&);
/// Between the text and the background, for notes.
[[nodiscard]] QColor faint(const QPalette&);

/// Makes the texts of a panel faint, because they are of something else than what is in hand, or usual again.  It keeps
/// the focus and can be read and scrolled.
void set_greyed(QWidget&, bool);

}  // namespace orrery::gui
