#include <catch2/catch.hpp>

#include <QAbstractItemModelTester>
#include <QSortFilterProxyModel>
#include <atomic>
#include <chrono>
#include <thread>

#include "gui/model/cell_table.hpp"
#include "gui/model/latest_worker.hpp"
#include "gui/model/tables.hpp"

using namespace orrery;
using namespace orrery::gui;

TEST_CASE("the table model keeps the rules of item models, sorted and filtered", "[gui]") {
  CellTable table;
  QSortFilterProxyModel sorted;
  sorted.setSourceModel(&table);
  sorted.setSortRole(order_role);
  sorted.sort(0);
  // A broken rule ends the program, because the mode is fatal.
  const QAbstractItemModelTester plain(&table, QAbstractItemModelTester::FailureReportingMode::Fatal);
  const QAbstractItemModelTester proxied(&sorted, QAbstractItemModelTester::FailureReportingMode::Fatal);
  const auto row = [](std::uint64_t id, double value) {
    return CellRow{id,
                   {{QString::number(value), value}, {QStringLiteral("name %1").arg(id), {}, QStringLiteral("tip")}}};
  };
  const std::vector<QString> headers{QStringLiteral("value"), QStringLiteral("name")};
  table.set(headers, {row(7, 3.0), row(8, 20.0), row(9, 1.0)});
  CHECK(table.rowCount() == 3);
  CHECK(sorted.index(0, 1).data().toString() == QStringLiteral("name 9"));
  CHECK(sorted.index(2, 1).data().toString() == QStringLiteral("name 8"));  // by the number, not by its text
  CHECK(table.row_of(8) == 1);
  CHECK_FALSE(table.row_of(1));
  sorted.setFilterKeyColumn(-1);
  sorted.setFilterFixedString(QStringLiteral("name 8"));
  CHECK(sorted.rowCount() == 1);
  table.set(headers, {row(8, 2.0), row(1, 20.0), row(9, 1.0)});
  table.set(headers, {});
  CHECK(table.rowCount() == 0);
  table.set({}, {});
  CHECK(table.columnCount() == 0);
}

TEST_CASE("a table as comma-separated values keeps what is in its cells", "[gui]") {
  CellTable table;
  table.set({QStringLiteral("a"), QStringLiteral("b, c")},
            {{0, {{QStringLiteral("say \"x\"")}, {QStringLiteral("1,000"), 1000.0}}}});
  CHECK(csv_of(table) == QStringLiteral("a,\"b, c\"\r\n\"say \"\"x\"\"\",\"1,000\"\r\n"));
}

TEST_CASE("of requests that come faster than they are done the last is done, and the others are told", "[gui]") {
  std::atomic<int> done{0}, last{-1}, stopped{0};
  {
    LatestWorker<int> worker([&](const int& request, const std::atomic<bool>& outdated) {
      // Each request works until it is outdated, except the last one.
      while (request != 100 && !outdated) std::this_thread::yield();
      if (outdated) ++stopped;
      ++done;
      last = request;
    });
    for (int i = 0; i <= 100; ++i) worker.submit(i);
    while (last != 100) std::this_thread::yield();
  }
  CHECK(last == 100);
  CHECK(done <= 101);
  CHECK(stopped == done - 1);
}

TEST_CASE("a worker that is busy ends when its owner does", "[gui]") {
  std::atomic<bool> began{false};
  LatestWorker<int> worker([&](const int&, const std::atomic<bool>& outdated) {
    began = true;
    while (!outdated) std::this_thread::yield();
  });
  worker.submit(1);
  while (!began) std::this_thread::yield();
  // The destructor would wait forever if the work were not told to stop.
}

TEST_CASE("the shares of a range are of all its ranks", "[gui]") {
  const TableContent content =
      statistics_table({{"gemm", 3'000'000, 3, false}, {"bubble", 1'000'000, 1, true}}, TimeRange{0, 2'000'000}, 2);
  REQUIRE(content.rows.size() == 2);
  CHECK(content.rows[0].cells[2].text == QStringLiteral("75.0 %"));  // 3 of 2 ranks x 2 us
  CHECK(content.rows[0].cells[4].text.toStdString() == "1.000 us");
  CHECK(content.rows[1].cells[2].text == QStringLiteral("25.0 %"));
}
