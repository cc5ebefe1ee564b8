import { useState } from "preact/hooks";
import { usePage } from "../page";
import { words } from "../words";
import { AnsweredRow } from "./AnsweredRow";
import { Badge } from "./Badge";
import { Bar } from "./Bar";
import { QuestionCard } from "./QuestionCard";
import { SessionRow } from "./SessionRow";

const ANSWERED_AT_FIRST = 6;
const SESSIONS_AT_FIRST = 5;

/** Every question that waits, over all agents and machines, and what became of the last ones. */
export function Inbox({ wide = false }: { wide?: boolean }) {
  const { store } = usePage();
  const waiting = store.waiting.value;
  return (
    <section class="screen" aria-label={words.places.inbox}>
      <Bar title={words.places.inbox}>{!wide && <Badge />}</Bar>
      <div class="scroll">
        {waiting.length > 0 ? (
          <>
            <h2>{words.inbox.waits(waiting.length)}</h2>
            <div class="list">
              {waiting.map((one) => (
                <QuestionCard key={one.id} roundTrip={one} />
              ))}
            </div>
          </>
        ) : (
          <Nothing />
        )}
        <Answered />
        {!wide && <Recent />}
      </div>
    </section>
  );
}

function Nothing() {
  const { store } = usePage();
  if (!store.known.value) return <p class="empty">{words.inbox.loading}</p>;
  if (store.agents.value.size === 0) {
    return (
      <div class="empty">
        <p>{words.inbox.noAgent}</p>
        <p>{words.inbox.noAgentThen}</p>
        <pre>{words.inbox.connect(location.origin.replace(/^http/, "ws"))}</pre>
      </div>
    );
  }
  return (
    <div class="empty">
      <p>{words.inbox.empty}</p>
      <p>{words.inbox.emptyThen}</p>
    </div>
  );
}

function Answered() {
  const { store } = usePage();
  const [all, setAll] = useState(false);
  const answered = store.answered.value;
  if (answered.length === 0) return null;
  const shown = all ? answered : answered.slice(0, ANSWERED_AT_FIRST);
  return (
    <>
      <h2>{words.inbox.answered}</h2>
      <div class="card rows">
        {shown.map((one) => (
          <AnsweredRow key={one.id} roundTrip={one} />
        ))}
        {shown.length < answered.length && (
          <button type="button" class="more" onClick={() => setAll(true)}>
            {words.inbox.moreAnswered(answered.length - shown.length)}
          </button>
        )}
      </div>
    </>
  );
}

function Recent() {
  const sessions = usePage().store.sessionList.value.slice(0, SESSIONS_AT_FIRST);
  if (sessions.length === 0) return null;
  return (
    <>
      <h2>{words.inbox.running}</h2>
      <div class="card rows">
        {sessions.map((session) => (
          <SessionRow key={session.sessionId} session={session} />
        ))}
      </div>
    </>
  );
}
