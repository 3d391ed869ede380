#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace {

/// Without comments and preprocessor lines.
std::string code_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string out;
  for (std::string line; std::getline(in, line);) {
    const auto comment = line.find("//");
    const bool whole = comment != std::string::npos && (comment == 0 || line[comment - 1] != ':');
    if (whole) line.resize(comment);
    if (line.find_first_not_of(' ') != std::string::npos && line[line.find_first_not_of(' ')] != '#')
      out += line + "\n";
  }
  return out;
}

/// Statements that show a text which no translator sees: they give a literal with a word in it to something that people
/// read, without tr().
std::vector<std::string> untranslated(const std::string& code) {
  static const std::regex shows(
      R"((setText|setPlainText|setToolTip|setAccessibleName|setAccessibleDescription|setWindowTitle|setPlaceholderText|setLabel|setSuffix|setPrefix|setTitle|addTab|addItem|addItems|addAction|addMenu|addRow|showMessage|show_message|show_problem|set_message|drawText|QLabel|QPushButton|QRadioButton|QCheckBox|QGroupBox|QDockWidget|QAction)\()");
  static const std::regex literal(
      R"re((tr|translate|QT_TR_NOOP|QT_TRANSLATE_NOOP|QStringLiteral|QLatin1String|format)\(\s*((?:"(?:[^"\\]|\\.)*"\s*,?\s*)+))re");
  static const std::regex word("[A-Za-z]{2,}");
  static const std::regex marks(R"(%[0-9]|\\u[0-9a-f]{4}|\{[^}]*\}|<[^>]*>|Orrery|\\[a-z])");
  std::vector<std::string> out;
  std::istringstream statements(code);
  for (std::string statement; std::getline(statements, statement, ';');) {
    if (!std::regex_search(statement, shows)) continue;
    for (std::sregex_iterator at(statement.begin(), statement.end(), literal), end; at != end; ++at) {
      const std::string how = (*at)[1];
      if (how.starts_with("t") || how.starts_with("QT_")) continue;
      if (std::regex_search(std::regex_replace((*at)[2].str(), marks, ""), word)) out.push_back(statement);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a literal that people read goes through tr()", "[gui]") {
  // Tests the check itself: what it finds, and what it lets pass.
  CHECK(untranslated("label->setText(QStringLiteral(\"Hello\"));").size() == 1);
  CHECK(untranslated("label->setText(QString::fromStdString(fmt::format(\"{} ranks\", n)));").size() == 1);
  CHECK(untranslated("label->setText(tr(\"Hello\"));").empty());
  CHECK(untranslated("label->setText(QStringLiteral(\"%1: %2\").arg(a, b));").empty());
  CHECK(untranslated("label->setObjectName(QStringLiteral(\"hello\"));").empty());

  std::size_t files = 0;
  for (const char* folder : {"gui/widgets", "gui/app"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(ORRERY_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      ++files;
      for (const std::string& statement : untranslated(code_of(entry.path()))) {
        INFO(statement);
        CAPTURE(entry.path().filename().string());
        CHECK(false);
      }
    }
  }
  CHECK(files > 15);
}
