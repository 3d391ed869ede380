#include "report/page.hpp"

#include <catch2/catch.hpp>

#include "core/base/markup.hpp"

using namespace orrery;

TEST_CASE("text from files cannot become markup", "[unit][report]") {
  CHECK(marked_up("<script>a && 'b' \"c\"</script>") == "&lt;script&gt;a &amp;&amp; 'b' &quot;c&quot;&lt;/script&gt;");
  CHECK(marked_up("a\x01z\n\t") == "a\xef\xbf\xbdz\n\t");
  CHECK(marked_up("5 µs") == "5 µs");
  const std::string nasty = "</title><img src=x onerror=\"alert(1)\">";
  const std::string page = html_page(
      nasty, {{"i", nasty,
               paragraph(nasty) + folded(nasty, listing(nasty)) + html_table({nasty, "<" + nasty}, {{nasty, nasty}})}});
  CHECK(page.find("<img") == std::string::npos);
  CHECK(page.find("onerror=\"") == std::string::npos);
}

TEST_CASE("a page lists its sections and forbids to fetch anything", "[unit][report]") {
  const std::string page = html_page("t", {{"a", "First", ""}, {"b", "Second", ""}});
  CHECK(page.find("<a href=\"#a\">First</a>") != std::string::npos);
  CHECK(page.find("<section id=\"b\">\n<h2>Second</h2>") != std::string::npos);
  CHECK(page.find("default-src 'none'") != std::string::npos);
  CHECK(page.find("http:") == std::string::npos);
  CHECK(page.find("https:") == std::string::npos);
}

TEST_CASE("columns whose header says so are left-aligned", "[unit][report]") {
  CHECK(html_table({"a", "b", "<c"}, {{"1", "2", "3"}}) ==
        "<div class=\"wide\"><table>\n<thead><tr><th class=\"l\">a</th><th>b</th><th class=\"l\">c</th></tr></thead>\n"
        "<tbody>\n<tr><td class=\"l\">1</td><td>2</td><td class=\"l\">3</td></tr>\n</tbody>\n</table></div>\n");
}
