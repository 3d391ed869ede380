#pragma once

/// Marks a text that the window shows in the person's language; it stands for the text itself. Qt's lupdate looks for
/// this name in the sources. This folder must not include Qt, so the macro of Qt's header is defined again here.
#ifndef QT_TRANSLATE_NOOP
#define QT_TRANSLATE_NOOP(context, text) text
#endif
