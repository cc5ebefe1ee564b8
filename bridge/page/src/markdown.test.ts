// @vitest-environment jsdom
import { expect, test } from "vitest";
import { markdownHtml, terminalHtml } from "./markdown";

test.each([
  ["raw HTML", "<img src=x onerror=alert(1)>", /&lt;img/],
  ["a picture", "![cat](https://example.com/cat.png)", /^(?!.*<img).*cat\.png/],
  ["a script address", "[x](javascript:alert(1))", /^(?!.*href)/],
  ["a data address", "[x](data:text/html,1)", /^(?!.*href)/],
])("%s of an agent does nothing", (_, text, expected) => {
  expect(markdownHtml(text)).toMatch(expected);
});

test("ordinary markdown is drawn", () => {
  expect(markdownHtml("**a** `b` [c](https://example.com)").trim()).toBe(
    '<p><strong>a</strong> <code>b</code> <a href="https://example.com">c</a></p>',
  );
});

test("terminal colours become classes, never styles", () => {
  const html = terminalHtml("\u001b[1;31mred\u001b[0m \u001b[38;5;208mx\u001b[0m <b>");
  expect(html).toBe('<span class="ansi-bold ansi-red-fg">red</span> <span>x</span> &lt;b&gt;');
});

test("of an overwritten line the last state is shown", () => {
  expect(terminalHtml("10%\r100%\nnext\r\n")).toBe("100%\nnext\n");
});
