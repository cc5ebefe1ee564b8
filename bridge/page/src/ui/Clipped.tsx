import { useState } from "preact/hooks";
import { headOf } from "../reading";
import { words } from "../words";
import { Shown } from "./Shown";

interface Props {
  text: string;
  /** Told once, when the whole text is shown. */
  onOpened?: () => void;
}

/** A text in full, or its beginning and a count of what is left. */
export function Clipped({ text, onOpened }: Props) {
  const [opened, setOpened] = useState(false);
  const head = opened ? text : headOf(text);
  const left = text.length - head.length;
  const open = () => {
    setOpened(true);
    onOpened?.();
  };
  return (
    <>
      <pre>
        <Shown text={head} />
        {left > 0 && "…"}
      </pre>
      {left > 0 && (
        <button type="button" class="more" onClick={open}>
          {words.more(left)}
        </button>
      )}
    </>
  );
}
