import { usePage } from "../page";
import { href, route } from "../route";
import { headline, subjectOf } from "../subject";
import type { RoundTrip } from "../wire";
import { words } from "../words";
import { Age } from "./Age";
import { Badge, LinkTrouble } from "./Badge";
import { Inbox } from "./Inbox";
import { places } from "./places";
import { Question } from "./Question";
import { RiskChip } from "./Risk";
import { Session } from "./Session";
import { SessionsByMachine } from "./Sessions";
import { Shown } from "./Shown";
import { Tabs } from "./Tabs";
import { useNames } from "./useNames";

/** List, session and question side by side, so that an answer never hides what it is about. */
export function Desk() {
  const question = useQuestionBeside();
  return (
    <div class={question ? "desk three" : "desk"}>
      <button
        type="button"
        class="skip"
        onClick={() => document.getElementById("content")?.focus()}
      >
        {words.skip}
      </button>
      <List />
      <main id="content" tabIndex={-1} aria-label={words.workspace.place}>
        <Middle />
      </main>
      {question && (
        <aside>
          <Question id={question} beside />
        </aside>
      )}
    </div>
  );
}

function List() {
  const { store } = usePage();
  const waiting = store.waiting.value;
  return (
    <section class="screen list-column" aria-label={words.workspace.list}>
      <header class="bar">
        <h1>{words.product}</h1>
        <Badge />
      </header>
      <LinkTrouble />
      <Tabs places={["inbox", "fleet", "settings"]} />
      <div class="scroll">
        {waiting.length > 0 && route.value.at !== "inbox" && (
          <>
            <h2>{words.inbox.waitsShort(waiting.length)}</h2>
            <div class="card rows">
              {waiting.map((one) => (
                <WaitingRow key={one.id} roundTrip={one} />
              ))}
            </div>
          </>
        )}
        <SessionsByMachine />
      </div>
      <footer class="foot">
        {store.may("operator") && (
          <a class="btn" href={href({ at: "new" })}>
            {words.sessions.create}
          </a>
        )}
        <p class="note keys">
          <kbd>j</kbd> <kbd>k</kbd> <kbd>enter</kbd> <kbd>a</kbd> <kbd>r</kbd> {words.help.hint} ·{" "}
          <kbd>?</kbd>
        </p>
      </footer>
    </section>
  );
}

function WaitingRow({ roundTrip }: { roundTrip: RoundTrip }) {
  const names = useNames(roundTrip.agent);
  const at = route.value;
  const isHere = at.at === "question" && at.id === roundTrip.id;
  return (
    <a
      class="row"
      href={href({ at: "question", id: roundTrip.id })}
      aria-current={isHere ? "page" : undefined}
      data-row
      data-question={roundTrip.id}
    >
      <RiskChip risk={roundTrip.risk} short />
      <span class="two">
        <span class="mono">
          <Shown text={headline(subjectOf(roundTrip)).slice(0, 300)} />
        </span>
        <span class="sub">{[names.agent, names.host].filter(Boolean).join(" · ")}</span>
      </span>
      <Age at={roundTrip.askedAt} bare />
    </a>
  );
}

function Middle() {
  const { store } = usePage();
  const at = route.value;
  if (at.at === "session") return <Session key={at.id} id={at.id} beside />;
  if (at.at === "question") {
    const sessionId = store.roundTrips.value.get(at.id)?.sessionId;
    return sessionId ? <Session key={sessionId} id={sessionId} beside /> : <Inbox wide />;
  }
  const Rare = places[at.at];
  return Rare ? <Rare wide /> : <Inbox wide />;
}

// The question that is opened, else the first that waits in the session that is shown.
function useQuestionBeside(): string | null {
  const { store } = usePage();
  const at = route.value;
  if (at.at === "question") return at.id;
  if (at.at !== "session") return null;
  return store.waiting.value.find((one) => one.sessionId === at.id)?.id ?? null;
}
