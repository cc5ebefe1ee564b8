import type { Conversation } from "../conversation";
import type { Stub } from "../whole";
import { sizeText } from "../whole";
import { words } from "../words";

interface Props {
  stub: Stub | null;
  conversation: Conversation;
}

/** The way to the whole of what came shortened: how long it is, and where it is kept. */
export function ShowAll({ stub, conversation }: Props) {
  if (!stub) return null;
  const fetching = conversation.fetching.value.get(stub.cursor);
  if (fetching?.state === "reading") {
    return (
      <p class="note" role="status">
        {words.session.readingAll(Math.round(100 * fetching.share), stub.host)}
      </p>
    );
  }
  return (
    <>
      <button type="button" class="more" onClick={() => void conversation.showAll(stub)}>
        {words.session.showAll(sizeText(stub.bytes), stub.host)}
      </button>
      {fetching && (
        <p class="problem" role="status">
          {words.session.notShown(fetching.message)}
        </p>
      )}
    </>
  );
}
