import { useComputed } from "@preact/signals";
import { memo } from "preact/compat";
import { took } from "../age";
import type { Conversation } from "../conversation";
import { capital, outcomeOfEntry, whereIs, whoIs } from "../outcome";
import { usePage } from "../page";
import type { QuestionItem } from "../questions";
import type {
  GapItem,
  Item,
  NoteItem,
  PlanItem,
  ResolvedItem,
  TextItem,
  TurnItem,
  UserItem,
} from "../transcript";
import { words } from "../words";
import { Age } from "./Age";
import { Markdown } from "./Markdown";
import { Output } from "./Output";
import { ShowAll } from "./ShowAll";
import { Shown } from "./Shown";
import { Asked, ToolCard } from "./ToolCard";
import { useNames } from "./useNames";

interface Props {
  item: Item | QuestionItem;
  conversation: Conversation;
  sessionId: string;
}

/** One item of a transcript; drawn again only when it changed. */
export const Entry = memo(({ item, conversation, sessionId }: Props) => {
  switch (item.type) {
    case "user":
      return <Said item={item} conversation={conversation} />;
    case "agent":
      return <Text item={item} conversation={conversation} />;
    case "thought":
      return <Thought item={item} conversation={conversation} />;
    case "tool":
      return <ToolCard tool={item} conversation={conversation} sessionId={sessionId} />;
    case "question":
      return <Asked roundTrip={item.roundTrip} />;
    case "plan":
      return <Plan item={item} />;
    case "turn":
      return <Turn item={item} />;
    case "gap":
      return <Gap item={item} />;
    case "resolved":
      return <Closed item={item} sessionId={sessionId} />;
    default:
      return <Note item={item} />;
  }
});

// Markdown of a book is drawn for seconds; beyond this a text is shown as it is, part by part.
const MARKDOWN_CHARACTERS = 100_000;

function Text({ item, conversation }: { item: TextItem; conversation: Conversation }) {
  const isLong = item.text.length > MARKDOWN_CHARACTERS;
  return (
    <>
      {isLong ? <Output text={item.text} running={false} /> : <Markdown text={item.text} />}
      <ShowAll stub={item.stub} conversation={conversation} />
    </>
  );
}

function Said({ item, conversation }: { item: UserItem; conversation: Conversation }) {
  const { store } = usePage();
  const who = whoIs(item.origin, { isMe: (by) => store.isMe(by) });
  const queued = useComputed(
    () => item.mailId !== null && conversation.view.value.queued.has(item.mailId),
  ).value;
  return (
    <div class="said">
      <div class="bubble">
        <Shown text={item.text} dir="auto" />
      </div>
      <ShowAll stub={item.stub} conversation={conversation} />
      <p class="note">
        {capital(words.session.from(who, whereIs(item.origin)))}
        {queued && ` · ${words.session.queued}`} · <Age at={item.at} />
      </p>
    </div>
  );
}

function Thought({ item, conversation }: { item: TextItem; conversation: Conversation }) {
  const isLast = useComputed(() => {
    const { items, running } = conversation.view.value;
    return running !== null && items.at(-1)?.key === item.key;
  }).value;
  return (
    <details class="thought">
      <summary>{isLast ? words.session.thinking : words.session.thought}</summary>
      <div dir="auto">{item.text}</div>
    </details>
  );
}

const PLAN_SHAPES: Record<string, string> = { pending: "○", in_progress: "●", completed: "✓" };

function Plan({ item }: { item: PlanItem }) {
  const done = item.entries.filter((entry) => entry.status === "completed").length;
  return (
    <section class="card plan" aria-label={words.session.plan}>
      <header>
        <b>{words.session.plan}</b>
        <span class="age">{words.session.planDone(done, item.entries.length)}</span>
      </header>
      <ol>
        {item.entries.map((entry, index) => (
          <li key={index} class={entry.status}>
            <span role="img" aria-label={words.session.planStates[entry.status] ?? entry.status}>
              {PLAN_SHAPES[entry.status] ?? "○"}
            </span>
            <span dir="auto">{entry.content}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Turn({ item }: { item: TurnItem }) {
  const time = item.took === null ? "" : words.session.turn.took(took(item.took));
  if (item.error) {
    const why = item.error.data?.message ?? item.error.message;
    return (
      <p class="problem turn" role="status">
        {words.session.turn.failed(why)} <Age at={item.at} />
      </p>
    );
  }
  return (
    <p class="divider">
      {turnWords(item)} {time} · <Age at={item.at} />
    </p>
  );
}

function turnWords(item: TurnItem): string {
  if (item.state === "unknown") return words.session.turn.unknown;
  const known = words.session.turn as unknown as Record<string, string>;
  const reason = item.stopReason ?? "end_turn";
  return reason === "end_turn" ? words.session.turn.ended : (known[reason] ?? reason);
}

function Gap({ item }: { item: GapItem }) {
  return <p class="divider gap">{words.session.gap(item.count)}</p>;
}

function Closed({ item, sessionId }: { item: ResolvedItem; sessionId: string }) {
  const { store } = usePage();
  const names = useNames(store.sessions.value.get(sessionId)?.agent ?? "");
  return <p class="divider">{outcomeOfEntry(item.resolved, names).sentence}</p>;
}

function Note({ item }: { item: NoteItem }) {
  const text =
    item.type === "mode"
      ? words.session.modeChanged(item.text)
      : words.session.unknownUpdate(item.text, item.count);
  return <p class="divider">{text}</p>;
}
