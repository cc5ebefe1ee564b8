import { useMemo } from "preact/hooks";
import { reveal } from "../hidden";
import { words } from "../words";

/** A text as it is: what one could not see stands there by its code. */
export function Shown({ text, dir = "ltr" }: { text: string; dir?: "ltr" | "auto" }) {
  const segments = useMemo(() => reveal(text), [text]);
  return (
    <bdi dir={dir}>
      {segments.map((segment, index) =>
        "text" in segment ? (
          segment.text
        ) : (
          <mark key={index} title={words.question.hiddenOne(segment.mark, segment.name)}>
            {segment.mark}
          </mark>
        ),
      )}
    </bdi>
  );
}
