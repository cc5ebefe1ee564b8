import { useSignal } from "@preact/signals";
import { usePage } from "../page";
import { href } from "../route";
import { sessionTitle } from "../states";
import type { Session } from "../wire";
import { words } from "../words";
import { Badge } from "./Badge";
import { Bar } from "./Bar";
import { SessionRow } from "./SessionRow";

/** All sessions, by the machine they run on. */
export function Sessions() {
  const { store } = usePage();
  return (
    <section class="screen" aria-label={words.places.sessions}>
      <Bar title={words.places.sessions}>
        {store.may("operator") && (
          <a class="btn small" href={href({ at: "new" })}>
            {words.sessions.create}
          </a>
        )}
        <Badge />
      </Bar>
      <div class="scroll">
        <SessionsByMachine />
        <p class="note">
          <a href={href({ at: "history" })}>{words.settings.withinSub.history}</a>
        </p>
      </div>
    </section>
  );
}

/** The lists themselves, with a filter once there is something to filter. */
export function SessionsByMachine() {
  const { store } = usePage();
  const filter = useSignal("");
  const text = filter.value.trim().toLowerCase();
  const sessions = store.sessionList.value;
  const hostOf = (session: Session) => store.agentOf(session.agent)?.host ?? "";
  const shown = sessions.filter((one) => matches(one, hostOf(one), text));
  if (sessions.length === 0)
    return store.known.value ? <NoSessions /> : <p class="empty">{words.inbox.loading}</p>;
  return (
    <>
      {sessions.length > 3 && (
        <input
          class="filter"
          type="search"
          data-filter
          placeholder={words.sessions.search}
          aria-label={words.sessions.search}
          value={filter.value}
          onInput={(event) => {
            filter.value = event.currentTarget.value;
          }}
        />
      )}
      {shown.length === 0 && <p class="empty">{words.sessions.noMatch(filter.value)}</p>}
      {[...grouped(shown, hostOf)].map(([host, group]) => (
        <div key={host}>
          <h2>{host || words.fleet.unknownMachine}</h2>
          <div class="card rows">
            {group.map((session) => (
              <SessionRow key={session.sessionId} session={session} showHost={false} />
            ))}
          </div>
        </div>
      ))}
    </>
  );
}

function NoSessions() {
  return (
    <div class="empty">
      <p>{words.sessions.none}</p>
      <p>{words.sessions.noneThen}</p>
    </div>
  );
}

function matches(session: Session, host: string, text: string): boolean {
  if (!text) return true;
  return `${sessionTitle(session)} ${session.cwd} ${host}`.toLowerCase().includes(text);
}

function grouped(
  sessions: Session[],
  hostOf: (session: Session) => string,
): Map<string, Session[]> {
  const groups = new Map<string, Session[]>();
  for (const session of sessions) {
    const host = hostOf(session);
    const group = groups.get(host);
    if (group) group.push(session);
    else groups.set(host, [session]);
  }
  return groups;
}
