import { memo } from "preact/compat";
import { useRef } from "preact/hooks";
import { Blocks } from "../blocks";
import { markdownHtml } from "../markdown";
import { words } from "../words";

/** An agent's text as it grows: finished blocks are drawn once, only the last one again. */
export function Markdown({ text }: { text: string }) {
  const blocks = useRef(new Blocks());
  blocks.current.update(text);
  const { finished, tail, openFence, endless } = blocks.current;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: it only watches taps on the links within
    // biome-ignore lint/a11y/useKeyWithClickEvents: a link's own enter key is a click
    <div class="markdown" dir="auto" onClick={showAddressFirst}>
      {finished.map((raw, index) => (
        <Block key={index} raw={raw} />
      ))}
      {openFence ? <pre>{withoutFence(tail)}</pre> : <Tail text={tail} plain={endless} />}
    </div>
  );
}

function Tail({ text, plain }: { text: string; plain: boolean }) {
  if (plain) return <p class="as-is">{text}</p>;
  return text ? <Block raw={text} /> : null;
}

const Block = memo(({ raw }: { raw: string }) => {
  return <div dangerouslySetInnerHTML={{ __html: markdownHtml(raw) }} />;
});

function withoutFence(text: string): string {
  return text.replace(/^ {0,3}[`~]{3,}[^\n]*\n?/, "");
}

// A link shows its real address at the first tap and opens at the second.
function showAddressFirst(event: MouseEvent): void {
  const link = (event.target as Element).closest("a");
  if (!link || link.dataset.shown) return;
  event.preventDefault();
  link.dataset.shown = "yes";
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  const address = document.createElement("span");
  address.className = "address";
  address.textContent = ` ${words.session.address} ${link.href}`;
  link.after(address);
}
