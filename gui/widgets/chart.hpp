#pragma once

// QCustomPlot's header uses Qt's keywords, which other headers do not tolerate (a Program has slots).
#define signals Q_SIGNALS
#define slots Q_SLOTS
#define foreach Q_FOREACH
#include <qcustomplot.h>
#undef signals
#undef slots
#undef foreach

namespace orrery::gui {

/// Gives a chart the colours of the palette, and the font of its widget.
void dress(QCustomPlot&, const QPalette&);
/// Puts the legend above the chart, in rows of `columns`.
void lift_legend(QCustomPlot&, int columns);

}  // namespace orrery::gui
