import { instant, took } from "../age";
import { now } from "../clock";
import type { Conversation } from "../conversation";
import { changeOf } from "../lines";
import { outcomeOf, outcomeOfEntry } from "../outcome";
import { usePage } from "../page";
import { href } from "../route";
import type { Mark } from "../states";
import { type Diff, headline, subjectOf } from "../subject";
import { isOver, type ToolItem, toolHeading, withSubject } from "../tool";
import type { RoundTrip } from "../wire";
import { words } from "../words";
import { Change } from "./Change";
import { Output } from "./Output";
import { ShowAll } from "./ShowAll";
import { Shown } from "./Shown";
import { useNames } from "./useNames";
import { Verdict } from "./Verdict";

const MARKS: Record<string, Mark> = { completed: "ok", failed: "bad", in_progress: "warn" };

interface ToolCardProps {
  tool: ToolItem;
  conversation: Conversation;
  sessionId: string;
}

/** A tool call: what it is, how it stands, what it changed or printed, and who let it happen. */
export function ToolCard({ tool: heard, conversation, sessionId }: ToolCardProps) {
  const questions = useQuestions(heard, sessionId);
  const tool = withSubject(heard, questions[0] ? subjectOf(questions[0]) : null);
  const open = questions.find((one) => one.state === "open");
  const folder = usePage().store.sessions.value.get(sessionId)?.cwd;
  const { text, mono } = toolHeading(tool, folder);
  const mark = open ? "warn" : tool.exitCode ? "bad" : (MARKS[tool.status] ?? "off");
  return (
    <section class="tool" aria-label={text.slice(0, 200)} data-tool={tool.toolCallId}>
      <header>
        <span class={`dot ${mark}`} />
        <span class={mono ? "mono" : ""} dir="auto">
          <Shown text={text.slice(0, 1000)} />
        </span>
        {open ? (
          <a class="age" href={href({ at: "question", id: open.id })}>
            {words.session.asksYou}
          </a>
        ) : (
          <Standing tool={tool} />
        )}
      </header>
      <Outcomes tool={tool} questions={questions} sessionId={sessionId} />
      {tool.diffs.map((diff) => (
        <Change key={diff.path} diff={diff} headed={tool.diffs.length > 1} />
      ))}
      {tool.output ? (
        <Printed tool={tool} conversation={conversation} />
      ) : (
        <ShowAll stub={tool.stub} conversation={conversation} />
      )}
    </section>
  );
}

/** A question that no tool call stands for. */
export function Asked({ roundTrip }: { roundTrip: RoundTrip }) {
  const text = headline(subjectOf(roundTrip));
  return (
    <section class="tool" aria-label={text.slice(0, 200)}>
      <header>
        <span class={`dot ${roundTrip.state === "open" ? "warn" : "off"}`} />
        <span class="mono">
          <Shown text={text.slice(0, 1000)} />
        </span>
        {roundTrip.state === "open" && (
          <a class="age" href={href({ at: "question", id: roundTrip.id })}>
            {words.session.asksYou}
          </a>
        )}
      </header>
      <Verdict roundTrip={roundTrip} />
    </section>
  );
}

function Standing({ tool }: { tool: ToolItem }) {
  const end = tool.endedAt ?? (tool.status === "in_progress" ? now.value : null);
  const start = instant(tool.at);
  const state = words.session.toolStates[tool.status] ?? tool.status;
  const time = end !== null && start !== null ? took(end - start) : "";
  const exit = tool.exitCode ? words.session.exit(tool.exitCode) : "";
  const changed = tool.diffs.length === 1 ? countsOf(tool.diffs[0] as Diff) : "";
  return <span class="age">{[state, changed, exit, time].filter(Boolean).join(" · ")}</span>;
}

function countsOf(diff: Diff): string {
  const { added, removed } = changeOf(diff.oldText, diff.newText);
  return words.question.changes(added, removed);
}

function Printed({ tool, conversation }: Omit<ToolCardProps, "sessionId">) {
  const lines = tool.output.split("\n", 14).length;
  const isShort = lines < 14 && tool.output.length < 1500;
  return (
    <details class="printed" open={isShort || !isOver(tool) || tool.status === "failed"}>
      <summary>{words.session.output}</summary>
      <Output text={tool.output} running={!isOver(tool)} />
      <ShowAll stub={tool.stub} conversation={conversation} />
    </details>
  );
}

interface OutcomesProps {
  tool: ToolItem;
  questions: RoundTrip[];
  sessionId: string;
}

// Who let it happen: from the records, and for older questions from the log itself.
function Outcomes({ tool, questions, sessionId }: OutcomesProps) {
  const { store } = usePage();
  const names = useNames(store.sessions.value.get(sessionId)?.agent ?? "");
  const known = new Set(questions.map((one) => one.id));
  const older = tool.asked.filter((one) => !known.has(one.id) && one.resolved);
  const sentences = [
    ...questions.map((one) => outcomeOf(one, subjectOf(one), names)),
    ...older.map((one) => one.resolved && outcomeOfEntry(one.resolved, names)),
  ].filter((one) => one !== null);
  return (
    <>
      {sentences.map((one) => (
        <p key={one.sentence} class="who">
          {one.sentence}
          {one.state === words.outcome.states.recorded && `. ${one.rest}`}
        </p>
      ))}
    </>
  );
}

function useQuestions(tool: ToolItem, sessionId: string): RoundTrip[] {
  const { store } = usePage();
  const asked = new Set(tool.asked.map((one) => one.id));
  return [...store.roundTrips.value.values()].filter(
    (one) =>
      one.sessionId === sessionId && (asked.has(one.id) || one.toolCallId === tool.toolCallId),
  );
}
