import { useMemo, useState } from "preact/hooks";
import { isTerminalText, terminalHtml } from "../markdown";
import { headOf, tailOf } from "../reading";
import { words } from "../words";

/** What a tool printed: its beginning and a count of the rest, or while it runs the end. */
export function Output({ text, running }: { text: string; running: boolean }) {
  const [opened, setOpened] = useState(false);
  const shown = opened ? text : running ? tailOf(text) : headOf(text);
  const left = text.length - shown.length;
  return (
    <>
      {left > 0 && running && <More left={left} onOpen={() => setOpened(true)} />}
      {isTerminalText(shown) ? <Terminal text={shown} /> : <pre>{shown}</pre>}
      {left > 0 && !running && <More left={left} onOpen={() => setOpened(true)} />}
    </>
  );
}

function Terminal({ text }: { text: string }) {
  const html = useMemo(() => terminalHtml(text), [text]);
  return <pre class="terminal" dangerouslySetInnerHTML={{ __html: html }} />;
}

function More({ left, onOpen }: { left: number; onOpen: () => void }) {
  return (
    <button type="button" class="more" onClick={onOpen}>
      {words.more(left)}
    </button>
  );
}
