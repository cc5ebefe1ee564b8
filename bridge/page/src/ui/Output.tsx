import { useMemo } from "preact/hooks";
import { isTerminalText, terminalHtml } from "../markdown";
import { headOf, tailOf } from "../reading";
import { words } from "../words";
import { useOpening } from "./useOpening";

/** What a tool printed: its beginning and a count of the rest, or while it runs the end. */
export function Output({ text, running }: { text: string; running: boolean }) {
  const first = running ? tailOf(text) : headOf(text);
  const { length, left, next, open } = useOpening(text, first.length);
  const shown = running ? text.slice(text.length - length) : text.slice(0, length);
  const more = left > 0 && (
    <button type="button" class="more" onClick={open}>
      {words.more(left, next)}
    </button>
  );
  return (
    <>
      {running && more}
      {isTerminalText(shown) ? <Terminal text={shown} /> : <pre>{shown}</pre>}
      {!running && more}
    </>
  );
}

function Terminal({ text }: { text: string }) {
  const html = useMemo(() => terminalHtml(text), [text]);
  return <pre class="terminal" dangerouslySetInnerHTML={{ __html: html }} />;
}
