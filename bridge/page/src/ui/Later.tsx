import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { words } from "../words";

/** What a place is told of the window it stands in. */
export interface PlaceProps {
  /** It stands beside the list of a desk. */
  wide?: boolean;
}

type Place = ComponentType<PlaceProps>;

/** Gives a place whose code is fetched when it is first opened; until then it says so. */
export function later(fetchIt: () => Promise<Place>): Place {
  let known: Place | null = null;
  return function Later(props: PlaceProps) {
    const [Found, setFound] = useState<Place | null>(() => known);
    const [problem, setProblem] = useState<string | null>(null);
    useEffect(() => {
      if (Found) return;
      fetchIt().then(
        (place) => {
          known = place;
          setFound(() => place);
        },
        (error: Error) => setProblem(error.message),
      );
    }, [Found]);
    useEffect(() => {
      // What had the focus went with the place before; on a phone a new place begins at its head.
      if (Found && !props.wide && document.activeElement === document.body)
        document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
    }, [Found, props.wide]);
    if (Found) return <Found {...props} />;
    return (
      <section class="screen">
        {problem === null ? <p class="empty">{words.later.opening}</p> : <Missing why={problem} />}
      </section>
    );
  };
}

// The relay serves another build by now, or there is no network and this part was never kept.
function Missing({ why }: { why: string }) {
  return (
    <div class="empty">
      <p role="alert">{words.later.missing}</p>
      <p>{words.later.missingThen}</p>
      <button type="button" class="btn small" onClick={() => location.reload()}>
        {words.link.reload}
      </button>
      <code>{why}</code>
    </div>
  );
}
