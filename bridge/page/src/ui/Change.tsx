import { useMemo, useState } from "preact/hooks";
import { changeOf, type Line } from "../lines";
import { headOfChange } from "../reading";
import type { Diff } from "../subject";
import { words } from "../words";
import { Shown } from "./Shown";

interface Props {
  diff: Diff;
  /** Told once, when the whole change is shown. */
  onOpened?: () => void;
  /** Whether path and counts stand above it; not where a card says them. */
  headed?: boolean;
}

const SIGNS = { add: "+", del: "−", same: " ", cut: "", note: "" };

/** What changes in a file, line by line with their numbers. */
export function Change({ diff, onOpened, headed = true }: Props) {
  const change = useMemo(() => changeOf(diff.oldText, diff.newText), [diff.oldText, diff.newText]);
  const [opened, setOpened] = useState(false);
  const shown = opened ? change.lines : headOfChange(change);
  const left = change.lines.length - shown.length;
  const open = () => {
    setOpened(true);
    onOpened?.();
  };
  return (
    <figure class="diff">
      {headed && (
        <figcaption>
          <span class="path">
            <Shown text={diff.path} />
          </span>
          <span class="count">
            {diff.oldText === null && `${words.question.newFile} · `}
            {words.question.changes(change.added, change.removed)}
          </span>
        </figcaption>
      )}
      <div class="lines">
        {shown.map((line, index) => (
          <Row key={index} line={line} />
        ))}
      </div>
      {left > 0 && (
        <button type="button" class="more" onClick={open}>
          {words.moreLines(left)}
        </button>
      )}
    </figure>
  );
}

function Row({ line }: { line: Line }) {
  if (line.kind === "cut") return <div class="cut">{words.linesNotShown}</div>;
  return (
    <div class={line.kind}>
      <i>{line.after ?? line.before ?? ""}</i>
      <span class="sign">{SIGNS[line.kind]}</span>
      <code>
        <Shown text={line.text} />
      </code>
    </div>
  );
}
