import { useState } from "preact/hooks";
import { type AuditPage, type AuditRecord, audit, type Figures, figures, query } from "../admin";
import { clockTime, exactTime, instant, took } from "../age";
import { edges, SPANS, type Span, told } from "../audit";
import { usePage } from "../page";
import { headOf } from "../reading";
import { href } from "../route";
import { words } from "../words/audit";
import { Bar } from "./Bar";
import { ForAdmins } from "./ForAdmins";
import { Shown } from "./Shown";
import { useRead } from "./useRead";
import "../style/console.css";

/** Who did what, when, from where: searched, counted, taken away. */
export function Audit() {
  const { store } = usePage();
  return (
    <section class="screen" aria-label={words.heading}>
      <Bar title={words.heading} back={{ at: "settings" }} />
      <div class="scroll broad">
        {store.may("admin") ? <Search /> : <ForAdmins says={words.admins} />}
      </div>
    </section>
  );
}

function Search() {
  const [span, setSpan] = useState<Span>("today");
  const [event, setEvent] = useState("closed");
  const [subject, setSubject] = useState("");
  const [text, setText] = useState("");
  // The edges are taken once a choice, so that a page's next one is of the same time.
  const [time, setTime] = useState(() => edges("today", Date.now()));
  const wanted = { ...time, event, subject: subject.trim(), text: text.trim() };
  return (
    <>
      <Spans
        chosen={span}
        choose={(one) => {
          setSpan(one);
          setTime(edges(one, Date.now()));
        }}
      />
      <Counted time={time} />
      <form class="filters" onSubmit={(submitted) => submitted.preventDefault()}>
        <select
          aria-label={words.event}
          value={event}
          onChange={(changed) => setEvent(changed.currentTarget.value)}
        >
          <option value="">{words.everything}</option>
          {Object.entries(words.events).map(([name, label]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
        </select>
        <input
          type="search"
          aria-label={words.person}
          placeholder={words.person}
          autocapitalize="off"
          value={subject}
          onChange={(changed) => setSubject(changed.currentTarget.value)}
        />
        <input
          type="search"
          data-filter
          aria-label={words.text}
          placeholder={words.text}
          value={text}
          onChange={(changed) => setText(changed.currentTarget.value)}
        />
      </form>
      <Records key={JSON.stringify(wanted)} wanted={wanted} />
      <Export time={time} />
    </>
  );
}

function Spans({ chosen, choose }: { chosen: Span; choose: (span: Span) => void }) {
  return (
    <fieldset class="spans">
      <legend class="aloud">{words.time}</legend>
      {SPANS.map((one) => (
        <button
          key={one}
          type="button"
          class="btn small"
          aria-pressed={one === chosen}
          onClick={() => choose(one)}
        >
          {words.times[one]}
        </button>
      ))}
    </fieldset>
  );
}

function Counted({ time }: { time: Record<string, string> }) {
  const { value } = useRead(() => figures(time), [time]);
  return (
    <dl class="tiles" aria-label={words.figures}>
      {tiles(value).map(([label, shown]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{shown}</dd>
        </div>
      ))}
    </dl>
  );
}

function tiles(found: Figures | null): [string, string][] {
  const count = (n: number | undefined) => (n === undefined ? words.never : n.toLocaleString());
  const median = found?.medianSecondsToDecide;
  return [
    [words.figure.held, count(found?.held)],
    [words.figure.approved, count(found?.approved)],
    [words.figure.denied, count(found?.denied)],
    [words.figure.byRule, count(found?.byRule)],
    [words.figure.expired, count(found?.expired)],
    [words.figure.median, typeof median === "number" ? took(median * 1000) : words.never],
  ];
}

function Records({ wanted }: { wanted: Record<string, string> }) {
  const [older, setOlder] = useState<AuditPage[]>([]);
  const first = useRead(() => audit(wanted));
  const [problem, setProblem] = useState<string | null>(null);
  const pages = first.value ? [first.value, ...older] : [];
  const records = pages.flatMap((page) => page.records);
  const before = pages.at(-1)?.next;
  const more = async () => {
    try {
      const page = await audit({ ...wanted, before: before ?? "" });
      setOlder([...older, page]);
      setProblem(null);
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  if (first.problem) return <Failed why={first.problem} again={first.again} />;
  if (!first.value) return <p class="note">{words.reading}</p>;
  return (
    <>
      {records.length === 0 && !before && <p class="empty">{words.none}</p>}
      {byDay(records).map(([day, group]) => (
        <div key={day}>
          <h2>{day}</h2>
          <div class="card rows">
            {group.map((one) => (
              <Record key={one.id} record={one} />
            ))}
          </div>
        </div>
      ))}
      {problem && <Failed why={problem} again={more} />}
      {before && !problem && (
        <button type="button" class="btn" onClick={() => void more()}>
          {words.more}
        </button>
      )}
    </>
  );
}

function Failed({ why, again }: { why: string; again: () => Promise<void> }) {
  return (
    <p class="problem" role="alert">
      {words.failed(why)}{" "}
      <button type="button" class="btn small" onClick={() => void again()}>
        {words.again}
      </button>
    </p>
  );
}

function Record({ record }: { record: AuditRecord }) {
  const { store } = usePage();
  const at = instant(record.at) ?? 0;
  const { chip, tone, what, rest } = told(record);
  const agent = record.agent ? store.agentOf(record.agent) : undefined;
  const place = agent && [agent.title || agent.name, agent.host].filter(Boolean).join(" on ");
  return (
    <details class="record" data-record={record.event}>
      <summary class="row answered">
        <span class={`chip tone-${tone}`}>{chip}</span>
        <span class="two">
          <span class="mono">
            <Shown text={headOf(what)} />
            {what.length > headOf(what).length && "…"}
          </span>
          <span class="sub">{[rest, place].filter(Boolean).join(" · ")}</span>
        </span>
        <time class="age" dateTime={record.at} title={exactTime(at)}>
          {clockTime(at)}
        </time>
      </summary>
      <Facts record={record} />
    </details>
  );
}

function Facts({ record }: { record: AuditRecord }) {
  const { by } = record;
  const own = { ...record, by: by?.subject, device: record.device ?? by?.device };
  const known = Object.entries(words.facts).filter(([name]) => own[name as keyof typeof own]);
  return (
    <div class="pad">
      {record.title && (
        <pre>
          <Shown text={record.title} />
        </pre>
      )}
      <dl class="facts">
        {known.map(([name, label]) => (
          <Fact key={name} label={label} value={String(own[name as keyof typeof own])} />
        ))}
      </dl>
      {record.sessionId && (
        <a class="btn small" href={href({ at: "session", id: record.sessionId })}>
          {words.session}
        </a>
      )}
    </div>
  );
}

function Fact({ label, value }: { label: string; value: string }) {
  const at = /^\d{4}-\d\d-\d\dT/.test(value) ? instant(value) : null;
  return (
    <>
      <dt>{label}</dt>
      <dd>{at === null ? <Shown text={value} /> : exactTime(at)}</dd>
    </>
  );
}

function Export({ time }: { time: Record<string, string> }) {
  return (
    <section class="card pad" aria-label={words.export}>
      <h2>{words.export}</h2>
      <p class="note">{words.exportNote}</p>
      <div class="onward">
        {(["csv", "jsonl"] as const).map((format) => (
          <a
            key={format}
            class="btn"
            download
            href={`/api/audit/export${query({ ...time, format })}`}
          >
            {format.toUpperCase()}
          </a>
        ))}
      </div>
    </section>
  );
}

function byDay(records: AuditRecord[]): [string, AuditRecord[]][] {
  const days = new Map<string, AuditRecord[]>();
  for (const one of records) {
    const at = new Date(instant(one.at) ?? 0);
    const day = at.toLocaleDateString(undefined, {
      weekday: "long",
      day: "numeric",
      month: "long",
    });
    days.set(day, [...(days.get(day) ?? []), one]);
  }
  return [...days];
}
