#include "tests/gui/virtual_display.hpp"

#include <QFile>
#include <QStandardPaths>
#include <QtEndian>

namespace orrery::gui::test {

QString VirtualDisplay::server() { return QStandardPaths::findExecutable(QStringLiteral("Xvfb")); }

VirtualDisplay::VirtualDisplay(QSize pixels) {
  // The server takes a free number and reports it once it is ready; its screen lies in a file of the folder. The root
  // window stays black; requests to the keyboard's compiler do not concern us.
  process_.setStandardErrorFile(QProcess::nullDevice());
  process_.start(server(), {QStringLiteral("-displayfd"), QStringLiteral("1"), QStringLiteral("-screen"),
                            QStringLiteral("0"), QStringLiteral("%1x%2x24").arg(pixels.width()).arg(pixels.height()),
                            QStringLiteral("-fbdir"), folder_.path(), QStringLiteral("-br"),
                            QStringLiteral("-nocursor"), QStringLiteral("-nolisten"), QStringLiteral("tcp")});
  QByteArray number;
  while (!number.contains('\n') && process_.waitForReadyRead(30'000)) number += process_.readAllStandardOutput();
  if (number.contains('\n')) name_ = u':' + QString::fromLatin1(number.trimmed());
}

VirtualDisplay::~VirtualDisplay() {
  process_.terminate();
  if (!process_.waitForFinished(10'000)) process_.kill();
  process_.waitForFinished(1'000);
}

QImage VirtualDisplay::picture() const {
  QFile screen(folder_.filePath(QStringLiteral("Xvfb_screen0")));
  return screen.open(QIODevice::ReadOnly) ? picture_of_dump(screen.readAll()) : QImage();
}

QImage picture_of_dump(const QByteArray& dump) {
  // The header has words of 32 bits, most significant byte first.
  enum Word { header_size, version, format, depth, width, height, byte_order = 7, bits = 11, line = 12, colours = 19 };
  constexpr qsizetype words = 25, colour_size = 12;
  if (dump.size() < 4 * words) return {};
  const auto word = [&](int at) { return static_cast<qsizetype>(qFromBigEndian<quint32>(dump.constData() + 4 * at)); };
  if (word(version) != 7 || word(bits) != 32 || word(byte_order) != 0) return {};
  const qsizetype pixels = word(header_size) + word(colours) * colour_size;
  if (dump.size() < pixels + word(line) * word(height)) return {};
  const QImage seen(reinterpret_cast<const uchar*>(dump.constData() + pixels), static_cast<int>(word(width)),
                    static_cast<int>(word(height)), word(line), QImage::Format_RGB32);
  return seen.copy();
}

}  // namespace orrery::gui::test
