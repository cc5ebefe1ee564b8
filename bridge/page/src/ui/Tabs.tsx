import type { ComponentChildren } from "preact";
import { usePage } from "../page";
import { href, type Route, route } from "../route";
import { words } from "../words";

type Place = keyof typeof words.places;

const ICONS: Record<Place, ComponentChildren> = {
  inbox: <path d="M4 13l2.5-8h11L20 13v6H4zM4 13h5a3 3 0 0 0 6 0h5" />,
  sessions: <path d="M4 6h16M4 12h16M4 18h10" />,
  fleet: <path d="M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01" />,
  settings: <path d="M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4" />,
};

/** The places: at the thumb on a phone, at the head of the list on a desk. */
export function Tabs({ places }: { places: Place[] }) {
  const { store } = usePage();
  const open = store.waiting.value.length;
  return (
    <nav class="tabs" aria-label={words.navigation}>
      {places.map((place) => (
        <a
          key={place}
          href={href({ at: place } as Route)}
          aria-current={place === placeOf(route.value) ? "page" : undefined}
        >
          <svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
            {ICONS[place]}
          </svg>
          <span>
            {words.places[place]} {place === "inbox" && open > 0 && <b class="count">{open}</b>}
          </span>
        </a>
      ))}
    </nav>
  );
}

function placeOf(at: Route): string {
  if (at.at === "session" || at.at === "new") return "sessions";
  return at.at === "question" ? "inbox" : at.at;
}
