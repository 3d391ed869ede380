#include <benchmark/benchmark.h>

#include <QApplication>

// The beginning of every benchmark of the desktop: an application that needs no display, in the program's style.

int main(int count, char** values) {
  if (!qEnvironmentVariableIsSet("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  const QApplication app(count, values);
  QApplication::setStyle(QStringLiteral("Fusion"));
  benchmark::Initialize(&count, values);
  if (benchmark::ReportUnrecognizedArguments(count, values)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
