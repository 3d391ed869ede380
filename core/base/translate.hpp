#pragma once

/// Marks a text that the window shows in the person's language; it stands for the text itself.  Qt's lupdate looks for
/// this name in the sources, and this folder knows no Qt, so what Qt's own header says is said again here.
#ifndef QT_TRANSLATE_NOOP
#define QT_TRANSLATE_NOOP(context, text) text
#endif
