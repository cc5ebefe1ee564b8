/** Markdown and terminal colours of agents as HTML that cannot do anything. */

import { AnsiUp } from "ansi_up";
import DOMPurify from "dompurify";
import { Marked } from "marked";

const TEXT_TAGS = ["p", "br", "strong", "em", "del", "code", "pre", "blockquote", "hr", "a"];
const BLOCK_TAGS = ["ul", "ol", "li", "h1", "h2", "h3", "h4", "h5", "h6"];
const TABLE_TAGS = ["table", "thead", "tbody", "tr", "th", "td"];

const MARKDOWN = {
  ALLOWED_TAGS: [...TEXT_TAGS, ...BLOCK_TAGS, ...TABLE_TAGS],
  ALLOWED_ATTR: ["href", "start", "align"],
  ALLOWED_URI_REGEXP: /^(https?|mailto):/i,
  RETURN_TRUSTED_TYPE: true,
} as const;

const TERMINAL = {
  ALLOWED_TAGS: ["span"],
  ALLOWED_ATTR: ["class"],
  RETURN_TRUSTED_TYPE: true,
} as const;

// Raw HTML and pictures of an agent are shown as the text they are.
const marked = new Marked({
  async: false,
  // Agents write lines and mean lines.
  breaks: true,
  renderer: {
    html: ({ text }) => escaped(text),
    image: ({ href, text }) => escaped(`${text} ${href}`.trim()),
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

/** Renders one block of markdown. */
export function markdownHtml(text: string): string {
  return trusted(marked.parse(text) as string, MARKDOWN);
}

/** Renders what a terminal printed: colours as classes, of an overwritten line its last state. */
export function terminalHtml(text: string): string {
  const ansi = new AnsiUp();
  ansi.use_classes = true;
  ansi.url_allowlist = {};
  const html = ansi.ansi_to_html(overwritten(text));
  // Our policy allows no inline styles; bold and faint become classes.
  const classes = html
    .replaceAll('style="font-weight:bold" class="', 'class="ansi-bold ')
    .replaceAll('style="font-weight:bold"', 'class="ansi-bold"')
    .replaceAll('style="opacity:0.7"', 'class="ansi-faint"');
  return trusted(classes, TERMINAL);
}

/** Whether a text has escape sequences or carriage returns to render. */
export function isTerminalText(text: string): boolean {
  return text.includes("\u001b") || text.includes("\r");
}

function overwritten(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(/^.*\r(?=.)/gm, "");
}

// With Trusted Types this is a TrustedHTML, which is what innerHTML takes there.
function trusted(html: string, config: typeof MARKDOWN | typeof TERMINAL): string {
  return DOMPurify.sanitize(html, config as never) as unknown as string;
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
