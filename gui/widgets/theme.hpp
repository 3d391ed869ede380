#pragma once

#include <QColor>
#include <QPalette>
#include <cstdint>

namespace orrery::gui {

/// Palette of the whole program.  Qt 6.4 does not know what the desktop prefers, so the program chooses.
[[nodiscard]] QPalette palette_of(bool dark);
[[nodiscard]] bool is_dark(const QPalette&);

// Colours that tell things apart and are safe for colour-blind eyes: Okabe and Ito, "Color universal design", 2008.

/// Colour of a colour key (timeline_strip.hpp).
[[nodiscard]] QColor slice_colour(std::uint8_t key, bool dark);
/// Colour of a role of memory (tables.hpp).
[[nodiscard]] QColor role_colour(std::size_t role);
/// Colours for values that are over a limit, better or worse.
[[nodiscard]] QColor bad_colour(bool dark);
[[nodiscard]] QColor good_colour(bool dark);
/// Colour for the members of one group, or of each coordinate along an axis in turn.
[[nodiscard]] QColor group_colour(std::size_t coordinate);
/// Colour of a link by the share of the time that it is busy, from 0 to 1; lines also grow wider with it.
[[nodiscard]] QColor load_colour(double load, const QPalette&);
/// A colour between the text and the background, for notes.
[[nodiscard]] QColor faint(const QPalette&);

/// Makes the texts of a panel faint, because they do not belong to the current plan, or usual again. The panel keeps
/// the focus and can be read and scrolled.
void set_greyed(QWidget&, bool);

}  // namespace orrery::gui
