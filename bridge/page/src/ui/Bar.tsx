import type { ComponentChildren } from "preact";
import { goBack, type Route } from "../route";
import { words } from "../words";

interface Props {
  title: string;
  /** Where back leads when one did not come from within the page. */
  back?: Route;
  children?: ComponentChildren;
}

/** The head of a place: the way back, its name, its state. */
export function Bar({ title, back, children }: Props) {
  return (
    <header class="bar">
      {back && (
        <button type="button" class="back" aria-label={words.back} onClick={() => goBack(back)}>
          <svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
            <path d="M15 5l-7 7 7 7" />
          </svg>
        </button>
      )}
      <h1 dir="auto" tabIndex={-1}>
        {title}
      </h1>
      {children}
    </header>
  );
}
