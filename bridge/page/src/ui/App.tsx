import { useSyncExternalStore } from "preact/compat";
import { useEffect, useRef } from "preact/hooks";
import { announcement } from "../announcer";
import { usePage } from "../page";
import { href, type Route, route } from "../route";
import { words } from "../words";
import { LinkTrouble } from "./Badge";
import { Desk } from "./Desk";
import { Help } from "./Help";
import { Inbox } from "./Inbox";
import { places } from "./places";
import { Question } from "./Question";
import { Session } from "./Session";
import { Sessions } from "./Sessions";
import { SignIn } from "./SignIn";
import { Tabs } from "./Tabs";

const PLACES_OF_TABS = new Set(["inbox", "sessions", "fleet", "settings"]);
const wide = matchMedia("(min-width: 900px)");

/** The whole page: the way in, or the places. */
export function App() {
  const { signedIn } = usePage();
  const isWide = useSyncExternalStore(onWidth, () => wide.matches);
  if (signedIn.value === "asking") return <p class="gate">{words.signIn.asking}</p>;
  if (signedIn.value !== "in") return <SignIn />;
  return (
    <>
      {isWide ? <Desk /> : <Phone />}
      <Help />
      <p class="aloud" aria-live="polite">
        {announcement}
      </p>
    </>
  );
}

function Phone() {
  const at = route.value;
  useFocusOnArrival(at);
  const isDeep = !PLACES_OF_TABS.has(at.at);
  return (
    <main class="phone">
      <LinkTrouble />
      <Place />
      {!isDeep && <Tabs places={["inbox", "sessions", "fleet", "settings"]} />}
    </main>
  );
}

// A new place begins at its head; back again, at the link that led away from it.
function useFocusOnArrival(at: Route): void {
  const from = useRef(at);
  useEffect(() => {
    if (from.current === at) return;
    const link = document.querySelector<HTMLElement>(`main a[href="${href(from.current)}"]`);
    from.current = at;
    const target = link?.closest("nav") ? null : link;
    (target ?? document.querySelector<HTMLElement>("main h1"))?.focus({ preventScroll: !target });
  }, [at]);
}

function Place() {
  const at = route.value;
  if (at.at === "session") return <Session key={at.id} id={at.id} />;
  if (at.at === "question") return <Question id={at.id} />;
  if (at.at === "sessions") return <Sessions />;
  const Rare = places[at.at];
  return Rare ? <Rare /> : <Inbox />;
}

function onWidth(changed: () => void): () => void {
  wide.addEventListener("change", changed);
  return () => wide.removeEventListener("change", changed);
}
