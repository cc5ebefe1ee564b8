import { useRef, useState } from "preact/hooks";
import { duration } from "../age";
import { now } from "../clock";
import type { Conversation } from "../conversation";
import { keepDraft, readDraft } from "../draft";
import { usePage } from "../page";
import { awaySentence, isReachable } from "../states";
import type { Session, Usage } from "../wire";
import { words } from "../words";
import { NeedsPairing } from "./NeedsPairing";

const BUSY = new Set(["running", "waiting", "stalled"]);

interface Props {
  session: Session;
  conversation: Conversation;
}

/** Where I write; Stop is always in reach while a turn runs. */
export function Composer({ session, conversation }: Props) {
  const { store } = usePage();
  const me = store.me.value;
  const { running, usage } = conversation.view.value;
  const isRunning = running !== null || BUSY.has(session.state);
  const why = store.may("operator")
    ? closedBecause(session, store.agentOf(session.agent)?.host ?? "")
    : "";
  return (
    <>
      {me && !store.may("operator") && (
        <p class="note">{words.composer.viewer(me.role, me.tenant)}</p>
      )}
      {why ? <p class="note">{why}</p> : <Away session={session} />}
      {conversation.refusal.value && (
        <p class="problem" role="alert">
          {conversation.refusal.value}
        </p>
      )}
      {store.may("operator") && store.isLocked(session.agent) && (
        <NeedsPairing agentId={session.agent} />
      )}
      {store.may("operator") && !store.isLocked(session.agent) && (
        <Write
          session={session}
          conversation={conversation}
          isRunning={isRunning}
          isClosed={why !== ""}
        />
      )}
      <UsageLine usage={session.usage ?? usage} />
    </>
  );
}

// For a moment only, as a laptop's lid or a phone line; a message waits for that.
function Away({ session }: { session: Session }) {
  const { store } = usePage();
  const host = store.agentOf(session.agent)?.host ?? "";
  const away = awaySentence(host, session.attachment, now.value + store.skew.value);
  return away ? (
    <p class="note">
      {away} {words.composer.away}
    </p>
  ) : null;
}

interface WriteProps extends Props {
  isRunning: boolean;
  isClosed: boolean;
}

function Write({ session, conversation, isRunning, isClosed }: WriteProps) {
  const [text, setText] = useState(() => readDraft(session.sessionId));
  const area = useRef<HTMLTextAreaElement>(null);
  const change = (next: string) => {
    setText(next);
    keepDraft(session.sessionId, next);
    growToText(area.current);
  };
  const send = () => {
    if (!text.trim() || isClosed) return;
    conversation.prompts.send(text.trim());
    change("");
    requestAnimationFrame(() => growToText(area.current));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <form
      class="compose"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        ref={area}
        rows={1}
        dir="auto"
        value={text}
        aria-label={words.composer.label}
        placeholder={isRunning ? words.composer.nextQueued : words.composer.next}
        enterkeyhint="send"
        disabled={isClosed}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      {text.trim() && (
        <button type="submit" class="btn go" disabled={isClosed}>
          {isRunning ? words.composer.queue : words.composer.send}
        </button>
      )}
      {isRunning && <Stop session={session} conversation={conversation} />}
      {!isRunning && !text.trim() && (
        <button type="submit" class="btn" disabled>
          {words.composer.send}
        </button>
      )}
    </form>
  );
}

function Stop({ session, conversation }: Props) {
  const { store } = usePage();
  const asked = conversation.stopping.value;
  const host = store.agentOf(session.agent)?.host ?? "";
  if (session.stateReason === "cancel_unacknowledged") {
    return <End conversation={conversation} />;
  }
  if (asked === null) {
    return (
      <button type="button" class="btn" onClick={() => void conversation.stop()}>
        {words.composer.stop}
      </button>
    );
  }
  return (
    <span class="stopping" role="status">
      {isReachable(session.attachment)
        ? words.composer.stopping(duration(now.value - asked))
        : words.composer.stopAway(host)}
    </span>
  );
}

// The agent was asked to stop and did not: stopping it again ends its process.
function End({ conversation }: { conversation: Conversation }) {
  const [isEnding, setEnding] = useState(false);
  const end = () => {
    setEnding(true);
    void conversation.stop().then(() => setEnding(conversation.refusal.value === null));
  };
  return (
    <span class="stopping" role="status">
      {isEnding ? words.composer.ending : words.composer.deaf}{" "}
      {!isEnding && (
        <button type="button" class="btn" onClick={end}>
          {words.composer.end}
        </button>
      )}
    </span>
  );
}

function UsageLine({ usage }: { usage: Usage | null | undefined }) {
  if (!usage?.used && !usage?.cost?.amount) return null;
  const tokens = usage.used ? words.session.tokens(usage.used, usage.size) : "";
  const cost = usage.cost?.amount ? money(usage.cost.amount, usage.cost.currency) : "";
  return <p class="note count">{[tokens, cost].filter(Boolean).join(" · ")}</p>;
}

function money(amount: number, currency: string): string {
  return new Intl.NumberFormat(undefined, {
    style: "currency",
    currency,
    maximumFractionDigits: amount < 1 ? 3 : 2,
  }).format(amount);
}

// Why nothing can be sent; empty when it can.
function closedBecause(session: Session, host: string): string {
  if (session.state === "ended") return words.composer.ended;
  const { state } = session.attachment;
  return state === "detached" || state === "ended" ? words.composer.detached(host) : "";
}

function growToText(area: HTMLTextAreaElement | null): void {
  if (!area) return;
  area.style.height = "auto";
  area.style.height = `${Math.min(area.scrollHeight + 2, 200)}px`;
}
