import { useComputed } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Conversation } from "../conversation";
import { usePage } from "../page";
import { withQuestions } from "../questions";
import { words } from "../words";
import { Entry } from "./Entry";
import { OwnPrompts } from "./OwnPrompts";

const AT_FIRST = 100;
const STEP = 400;
const LINE_HEIGHT = 23;
// So near to the top one is about to arrive there.
const REACH = 600;
// So near to the end counts as being there.
const NEAR = 40;

/** What was said and done. It follows the end only while one is there. */
export function Transcript({
  conversation,
  sessionId,
}: {
  conversation: Conversation;
  sessionId: string;
}) {
  const { store } = usePage();
  const all = useComputed(() => {
    const asked = [...store.roundTrips.value.values()].filter((one) => one.sessionId === sessionId);
    return withQuestions(conversation.view.value.items, asked);
  }).value;
  const [limit, setLimit] = useState(AT_FIRST);
  const shown = all.slice(-limit);
  const hidden = all.length - shown.length;
  const { scroller, newLines, toEnd, onScroll } = useEnd(
    [shown, conversation.prompts.waiting.value],
    `${conversation.view.value.first} ${limit}`,
  );
  // Going up leads on by itself: first to what is here and not drawn yet, then to earlier entries.
  const goOn = () => {
    const element = scroller.current;
    if (!element || element.scrollTop > REACH) return;
    if (hidden > 0) setLimit(limit + STEP);
    else if (conversation.before.value === "more" && !conversation.beforeProblem.value) {
      setLimit(limit + STEP);
      void conversation.loadEarlier();
    }
  };
  return (
    <div class="transcript">
      <div
        class="scroll"
        ref={scroller}
        onScroll={() => {
          onScroll();
          goOn();
        }}
      >
        <div class="column">
          {hidden > 0 ? (
            <button type="button" class="more" onClick={() => setLimit(limit + STEP)}>
              {words.session.shown(hidden)}
            </button>
          ) : (
            <Start conversation={conversation} isEmpty={all.length === 0} />
          )}
          {shown.map((item) => (
            <Entry key={item.key} item={item} conversation={conversation} sessionId={sessionId} />
          ))}
          <OwnPrompts conversation={conversation} />
        </div>
      </div>
      {newLines !== null && (
        <button type="button" class="to-end" onClick={toEnd}>
          {newLines > 0 ? words.session.newLines(newLines) : words.session.toEnd} ↓
        </button>
      )}
    </div>
  );
}

// What stands before the first entry: the beginning, a way to earlier ones, or why there is none.
function Start({ conversation, isEmpty }: { conversation: Conversation; isEmpty: boolean }) {
  const loading = conversation.loading.value;
  if (loading.state === "failed") {
    const gone = loading.reason === "not_found";
    const text = gone ? words.session.notFound : words.session.failed(loading.message);
    return <p class="problem">{text}</p>;
  }
  if (isEmpty) {
    if (loading.state === "whole") return <p class="empty">{words.session.empty}</p>;
    const waits = loading.state === "waiting";
    return (
      <p class="empty">
        {waits ? words.session.waitingForLink : words.session.reading(loading.received)}
      </p>
    );
  }
  switch (conversation.before.value) {
    case "more":
      return (
        <>
          {conversation.beforeProblem.value && (
            <p class="problem" role="status">
              {words.session.earlierFailed(conversation.beforeProblem.value)}
            </p>
          )}
          <button type="button" class="more" onClick={() => void conversation.loadEarlier()}>
            {words.session.earlier}
          </button>
        </>
      );
    case "reading":
      return <p class="divider">{words.session.readingEarlier}</p>;
    case "dropped":
      return <p class="divider">{words.session.dropped}</p>;
    default:
      return <p class="divider">{words.session.beginning}</p>;
  }
}

// What was put above must not move what one reads. Most browsers see to that themselves, but not
// at the very top.
function keepPlace(element: HTMLElement, heightBefore: number): void {
  const isAnchored = globalThis.CSS?.supports?.("overflow-anchor: auto") && element.scrollTop > 0;
  if (!isAnchored) element.scrollTop += element.scrollHeight - heightBefore;
}

// Sticks to the end while one is there; otherwise counts what came below.
function useEnd(changes: unknown[], top: string) {
  const scroller = useRef<HTMLDivElement>(null);
  const stuck = useRef(true);
  const heightLeft = useRef(0);
  // What comes before what one reads must not move it.
  const before = useRef(top);
  const height = useRef(0);
  const [newLines, setNewLines] = useState<number | null>(null);

  useLayoutEffect(() => {
    const element = scroller.current;
    if (!element) return;
    if (stuck.current) element.scrollTop = element.scrollHeight;
    else if (before.current !== top) keepPlace(element, height.current);
    else setNewLines(Math.round((element.scrollHeight - heightLeft.current) / LINE_HEIGHT));
    before.current = top;
    height.current = element.scrollHeight;
  }, changes);

  // What grows beside it takes room from it: the foot, a keyboard, a wider window.
  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const observer = new ResizeObserver(() => {
      if (stuck.current) element.scrollTop = element.scrollHeight;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const onScroll = () => {
    const element = scroller.current;
    if (!element) return;
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR;
    if (stuck.current && !isAtEnd) heightLeft.current = element.scrollHeight;
    stuck.current = isAtEnd;
    if (isAtEnd) setNewLines(null);
    else setNewLines((known) => known ?? 0);
  };
  const toEnd = () => {
    const element = scroller.current;
    if (element) element.scrollTop = element.scrollHeight;
  };
  return { scroller, newLines, toEnd, onScroll };
}
