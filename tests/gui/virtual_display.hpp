#pragma once

#include <QImage>
#include <QProcess>
#include <QSize>
#include <QString>
#include <QTemporaryDir>

// A display that exists in memory only (Xvfb), and its contents: what a person would see, whoever painted it.

namespace orrery::gui::test {

class VirtualDisplay {
 public:
  /// Where Debian's package xvfb puts the server; empty where there is none.
  [[nodiscard]] static QString server();

  /// Starts a display on a number of its own. name() is empty if it did not start.
  explicit VirtualDisplay(QSize pixels);
  ~VirtualDisplay();

  /// For DISPLAY: ":7".
  [[nodiscard]] QString name() const { return name_; }
  /// The pixels that clients have drawn; null where the server's memory cannot be read.
  [[nodiscard]] QImage picture() const;

 private:
  QTemporaryDir folder_;
  QProcess process_;
  QString name_;
};

/// Reads an X window dump of 32 bits a pixel (X11/XWDFile.h, version 7), as the server keeps its screen.
[[nodiscard]] QImage picture_of_dump(const QByteArray&);

}  // namespace orrery::gui::test
