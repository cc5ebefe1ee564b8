import { useState } from "preact/hooks";
import { usePage } from "../page";
import { href } from "../route";
import { sessionTitle, shortPath } from "../states";
import type { Session } from "../wire";
import { words as all } from "../words";
import { words } from "../words/history";
import { Age } from "./Age";
import { Bar } from "./Bar";
import "../style/console.css";

const FORMS = ["md", "html", "json"] as const;
const AT_ONCE = 50;

/** All sessions that are kept, to be found again and taken away. */
export function History() {
  const { store } = usePage();
  const [text, setText] = useState("");
  const [most, setMost] = useState(AT_ONCE);
  const sessions = store.sessionList.value;
  const found = sessions.filter((one) => nameOf(one, store.agentOf(one.agent)).includes(text));
  const left = Math.min(AT_ONCE, found.length - most);
  return (
    <section class="screen" aria-label={words.heading}>
      <Bar title={words.heading} back={{ at: "sessions" }} />
      <div class="scroll broad">
        <input
          class="filter"
          type="search"
          data-filter
          placeholder={words.search}
          aria-label={words.search}
          onInput={(event) => {
            setText(event.currentTarget.value.trim().toLowerCase());
            setMost(AT_ONCE);
          }}
        />
        {sessions.length === 0 ? (
          <p class="empty">{store.known.value ? words.none : all.inbox.loading}</p>
        ) : (
          <p class="note count" aria-live="polite">
            {found.length === 0 ? words.noMatch(text) : words.count(found.length, sessions.length)}
          </p>
        )}
        {found.length > 0 && (
          <div class="card rows">
            {found.slice(0, most).map((one) => (
              <Past key={one.sessionId} session={one} />
            ))}
          </div>
        )}
        {left > 0 && (
          <button type="button" class="btn" onClick={() => setMost(most + AT_ONCE)}>
            {words.more(left)}
          </button>
        )}
        <p class="note">{words.kept}</p>
      </div>
    </section>
  );
}

function Past({ session }: { session: Session }) {
  const { store } = usePage();
  const agent = store.agentOf(session.agent);
  const title = sessionTitle(session);
  const facts = [agent?.title || agent?.name, agent?.host, shortPath(session.cwd)];
  return (
    <details class="record">
      <summary class="row">
        <span class="two">
          <span dir="auto">{title}</span>
          <span class="sub">{facts.filter(Boolean).join(" · ")}</span>
        </span>
        <Age at={session.updatedAt} />
      </summary>
      <div class="pad">
        <a class="btn small" href={href({ at: "session", id: session.sessionId })}>
          {words.open}
        </a>
        <Transcripts session={session} />
      </div>
    </details>
  );
}

function Transcripts({ session }: { session: Session }) {
  const base = `/api/sessions/${encodeURIComponent(session.sessionId)}/transcript`;
  return (
    <fieldset class="field">
      <legend>{words.export}</legend>
      <div class="onward">
        {FORMS.map((form) => (
          <a key={form} class="btn small" href={`${base}?as=${form}`} download>
            {words.forms[form]}
          </a>
        ))}
      </div>
    </fieldset>
  );
}

function nameOf(
  session: Session,
  agent: { title: string; name: string; host: string } | undefined,
): string {
  const parts = [sessionTitle(session), session.cwd, agent?.host, agent?.title, agent?.name];
  return parts.join(" ").toLowerCase();
}
