import { useState } from "preact/hooks";
import { exactDuration, instant } from "../age";
import { checkOf } from "../choice";
import { now } from "../clock";
import { usePage } from "../page";
import { longParts } from "../reading";
import { go, href } from "../route";
import { awaySentence, sessionTitle } from "../states";
import { onlyRejectable, type Subject as SubjectText, subjectOf } from "../subject";
import type { RoundTrip } from "../wire";
import { words } from "../words";
import { Bar } from "./Bar";
import { Form, FormButtons } from "./Form";
import { NeedsPairing } from "./NeedsPairing";
import { Options } from "./Options";
import { RiskChip } from "./Risk";
import { Shown } from "./Shown";
import { Subject } from "./Subject";
import { useNames } from "./useNames";
import { Verdict } from "./Verdict";

/** The question as a full sheet: what will run scrolls, the answers stay in reach. */
export function Question({ id, beside = false }: { id: string; beside?: boolean }) {
  const { store } = usePage();
  const roundTrip = store.roundTrips.value.get(id);
  if (!roundTrip) {
    return (
      <section class="screen" aria-label={words.workspace.question}>
        <Bar title={words.product} back={{ at: "inbox" }} />
        <div class="scroll">
          <p class="empty">{store.known.value ? words.question.notFound : words.inbox.loading}</p>
        </div>
      </section>
    );
  }
  return <Sheet key={roundTrip.id} roundTrip={roundTrip} beside={beside} />;
}

function Sheet({ roundTrip, beside }: { roundTrip: RoundTrip; beside: boolean }) {
  const names = useNames(roundTrip.agent);
  const subject = subjectOf(roundTrip);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const unread = subject ? longParts(subject).filter((part) => !opened.has(part)) : [];
  return (
    <section
      class="screen sheet"
      aria-label={words.question.asks(names.agent)}
      data-question={roundTrip.id}
    >
      <Bar title={words.question.asks(names.agent)} back={beside ? undefined : { at: "inbox" }}>
        <RiskChip risk={roundTrip.risk} />
      </Bar>
      <div class="scroll">
        <Facts roundTrip={roundTrip} subject={subject} />
        {subject ? (
          <Subject subject={subject} onOpened={(part) => setOpened(new Set([...opened, part]))} />
        ) : (
          <p class="problem">{words.question.unreadable}</p>
        )}
        {subject?.form && <Asked roundTrip={roundTrip} subject={subject} />}
      </div>
      <footer class="foot">
        <Verdict roundTrip={roundTrip} />
        {subject && (
          <Answers roundTrip={roundTrip} subject={subject} isUnread={unread.length > 0} />
        )}
        <Onward roundTrip={roundTrip} beside={beside} />
      </footer>
    </section>
  );
}

function Facts({ roundTrip, subject }: { roundTrip: RoundTrip; subject: SubjectText | null }) {
  const { store } = usePage();
  const names = useNames(roundTrip.agent);
  const session = store.sessions.value.get(roundTrip.sessionId);
  const kind = subject?.kind ?? roundTrip.kind;
  return (
    <dl class="facts">
      <dt>
        {kind === "execute"
          ? words.question.facts.run
          : kind === "edit"
            ? words.question.facts.edit
            : words.question.facts.what}
      </dt>
      <dd>
        {kind === "edit" && subject?.diffs.length
          ? words.question.files(subject.diffs.length)
          : (words.question.kinds[kind] ?? kind)}
      </dd>
      <dt>{words.question.facts.on}</dt>
      <dd>{names.host}</dd>
      {subject?.cwd && (
        <>
          <dt>{words.question.facts.folder}</dt>
          <dd class="path">
            <Shown text={subject.cwd} />
          </dd>
        </>
      )}
      <dt>{words.question.facts.session}</dt>
      <dd dir="auto">
        {session ? (
          <a href={href({ at: "session", id: session.sessionId })}>{sessionTitle(session)}</a>
        ) : (
          ""
        )}
      </dd>
      {roundTrip.state === "open" && <Waits roundTrip={roundTrip} />}
    </dl>
  );
}

function Waits({ roundTrip }: { roundTrip: RoundTrip }) {
  const { store } = usePage();
  const present = now.value + store.skew.value;
  const asked = instant(roundTrip.askedAt);
  const end = instant(roundTrip.expiresAt);
  return (
    <>
      <dt>{words.question.facts.waits}</dt>
      <dd class="count">
        {asked === null ? "" : exactDuration(present - asked)}
        {end === null && `, ${words.question.noEnd}`}
      </dd>
      {end !== null && (
        <>
          <dt>{words.question.facts.ends}</dt>
          <dd class="count">{words.question.endsIn(exactDuration(end - present))}</dd>
        </>
      )}
    </>
  );
}

// Whether an answer may be offered: it is open, mine to give, and I have not given one.
function useMayAnswer(roundTrip: RoundTrip): boolean {
  const { store, decisions } = usePage();
  const mine = decisions.mine.value.get(roundTrip.id);
  const isFree = !mine || mine.state === "failed";
  return (
    roundTrip.state === "open" &&
    isFree &&
    store.may("approver") &&
    !store.isLocked(roundTrip.agent)
  );
}

function Asked({ roundTrip, subject }: { roundTrip: RoundTrip; subject: SubjectText }) {
  const may = useMayAnswer(roundTrip) && checkOf(roundTrip) !== "differs";
  return subject.form && <Form form={subject.form} roundTrip={may ? roundTrip : null} />;
}

interface AnswersProps {
  roundTrip: RoundTrip;
  subject: SubjectText;
  isUnread: boolean;
}

function Answers({ roundTrip, subject, isUnread }: AnswersProps) {
  const { store } = usePage();
  const me = store.me.value;
  const may = useMayAnswer(roundTrip);
  if (roundTrip.state === "open" && me && !store.may("approver")) {
    return <p class="note">{words.question.viewer(me.role, me.tenant)}</p>;
  }
  if (roundTrip.state === "open" && store.isLocked(roundTrip.agent)) {
    return <NeedsPairing agentId={roundTrip.agent} />;
  }
  if (!may) return null;
  const check = checkOf(roundTrip);
  if (check === "checking") return <p class="note">{words.question.checking}</p>;
  if (check === "differs") {
    return (
      <p class="problem" role="alert">
        {words.question.differs} {words.question.differsThen}
      </p>
    );
  }
  const locked = lockOf(roundTrip, subject, isUnread);
  if (subject.form) {
    return (
      <>
        {locked && <p class="note">{locked}</p>}
        <FormButtons form={subject.form} roundTrip={roundTrip} isLocked={locked !== null} />
      </>
    );
  }
  return (
    <>
      <Away agentId={roundTrip.agent} />
      {locked && <p class="note">{locked}</p>}
      <Options roundTrip={roundTrip} subject={subject} locked={locked} />
      {check === "unchecked" && <p class="note">{words.settings.insecure}</p>}
    </>
  );
}

function Away({ agentId }: { agentId: string }) {
  const { store } = usePage();
  const agent = store.agentOf(agentId);
  const away = agent && awaySentence(agent.host, agent.attachment, now.value + store.skew.value);
  return away ? (
    <p class="note">
      {away} {words.question.away(agent.host)}
    </p>
  ) : null;
}

function lockOf(roundTrip: RoundTrip, subject: SubjectText, isUnread: boolean): string | null {
  if (subject.truncated) return words.question.cut;
  if (onlyRejectable(roundTrip, subject)) return words.question.tooLong;
  return isUnread ? words.question.unread : null;
}

// After an answer the sheet says where to go from here.
function Onward({ roundTrip, beside }: { roundTrip: RoundTrip; beside: boolean }) {
  const { store, decisions } = usePage();
  const isAnswered =
    roundTrip.state !== "open" || decisions.mine.value.get(roundTrip.id)?.state === "recorded";
  if (!isAnswered) return null;
  const next = store.waiting.value.find((one) => one.id !== roundTrip.id);
  return (
    <div class="onward">
      {next && (
        <button type="button" class="btn" onClick={() => go({ at: "question", id: next.id })}>
          {words.question.next}
        </button>
      )}
      {!beside && (
        <button
          type="button"
          class="btn"
          onClick={() => go({ at: "session", id: roundTrip.sessionId })}
        >
          {words.question.session}
        </button>
      )}
    </div>
  );
}
