import { answerable, isSimple } from "../choice";
import { usePage } from "../page";
import { headOf } from "../reading";
import { href } from "../route";
import { sessionTitle, shortPath } from "../states";
import { headline, hiddenIn, subjectOf } from "../subject";
import type { RoundTrip } from "../wire";
import { words } from "../words";
import { Age } from "./Age";
import { Options } from "./Options";
import { RiskChip } from "./Risk";
import { Shown } from "./Shown";
import { Subject } from "./Subject";
import { useNames } from "./useNames";
import { Verdict } from "./Verdict";

/** One question that waits, in the inbox: a low-risk one is answered here, others are opened. */
export function QuestionCard({ roundTrip }: { roundTrip: RoundTrip }) {
  const page = usePage();
  const names = useNames(roundTrip.agent);
  const subject = subjectOf(roundTrip);
  const text = headline(subject);
  const head = headOf(text);
  const mine = page.decisions.mine.value.get(roundTrip.id);
  const isFree = !mine || mine.state === "failed";
  const simple =
    page.store.may("approver") &&
    !page.store.isLocked(roundTrip.agent) &&
    isSimple(roundTrip, subject) &&
    isFree;
  const to = href({ at: "question", id: roundTrip.id });
  return (
    <article class="card question" data-row data-question={roundTrip.id}>
      <header>
        <b>{names.agent}</b>
        <RiskChip risk={roundTrip.risk} />
        <Age at={roundTrip.askedAt} bare prefix={`${words.question.facts.waits} `} />
      </header>
      <p class="where">
        <Where roundTrip={roundTrip} host={names.host} />
      </p>
      {simple && subject ? (
        <Subject subject={subject} onOpened={() => undefined} />
      ) : (
        <a class="plain" href={to} aria-label={words.question.open(text.slice(0, 200))}>
          <pre>
            <Shown text={head} />
            {head.length < text.length && words.andMore(text.length - head.length)}
          </pre>
        </a>
      )}
      {subject && hiddenIn(subject) > 0 && (
        <p>
          <span class="chip risk-high">{words.question.hidden(hiddenIn(subject))}</span>
        </p>
      )}
      <Verdict roundTrip={roundTrip} />
      {simple && subject ? (
        <Options
          roundTrip={roundTrip}
          subject={subject}
          locked={null}
          inviting={answerable(page, roundTrip, "allow") !== null}
        />
      ) : (
        isFree && (
          <a class="btn" href={to}>
            {words.inbox.review}
          </a>
        )
      )}
    </article>
  );
}

function Where({ roundTrip, host }: { roundTrip: RoundTrip; host: string }) {
  const session = usePage().store.sessions.value.get(roundTrip.sessionId);
  const folder = subjectOf(roundTrip)?.cwd || session?.cwd || "";
  const parts = [host, shortPath(folder), session && sessionTitle(session)];
  return <span dir="auto">{parts.filter(Boolean).join(" · ")}</span>;
}
