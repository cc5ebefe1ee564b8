import type { Conversation } from "../conversation";
import type { OwnPrompt } from "../prompts";
import { words } from "../words";
import { Shown } from "./Shown";

/** My prompts that the log does not show yet, each with how it stands. */
export function OwnPrompts({ conversation }: { conversation: Conversation }) {
  return (
    <>
      {conversation.prompts.waiting.value.map((prompt) => (
        <Own key={prompt.mailId} prompt={prompt} conversation={conversation} />
      ))}
    </>
  );
}

function Own({ prompt, conversation }: { prompt: OwnPrompt; conversation: Conversation }) {
  const { state, mailId } = prompt;
  const isStuck = state === "unknown" || state === "failed" || state === "dropped";
  return (
    <div class="said pending" data-prompt={state}>
      <div class="bubble">
        <Shown text={prompt.text} dir="auto" />
      </div>
      <p class={isStuck ? "problem" : "note"}>
        {state === "failed"
          ? words.composer.prompt.failed(prompt.message ?? "")
          : words.composer.prompt[state]}
      </p>
      {isStuck && (
        <div class="onward">
          <button
            type="button"
            class="btn small"
            onClick={() => conversation.prompts.again(mailId)}
          >
            {words.composer.again}
          </button>
          <button
            type="button"
            class="btn small"
            onClick={() => conversation.prompts.discard(mailId)}
          >
            {words.composer.discard}
          </button>
        </div>
      )}
    </div>
  );
}
