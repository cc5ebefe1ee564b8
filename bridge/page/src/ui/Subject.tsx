import { diffPart, otherPaths, shownTitle } from "../reading";
import { hiddenIn, type Subject as SubjectText } from "../subject";
import { words } from "../words";
import { Change } from "./Change";
import { Clipped } from "./Clipped";
import { Shown } from "./Shown";

interface Props {
  subject: SubjectText;
  /** Told when a long part is shown to its end. */
  onOpened: (part: string) => void;
}

/** Exactly what will run. The first thing is the largest; what the agent says of it comes last. */
export function Subject({ subject, onOpened }: Props) {
  const { command, diffs, title, form } = subject;
  const hidden = hiddenIn(subject);
  const isTitleAll = !command && diffs.length === 0 && !form;
  return (
    <>
      {command && (
        <div class="hero">
          <Clipped text={command} onOpened={() => onOpened("command")} />
        </div>
      )}
      {isTitleAll && (
        <div class="hero">
          <Clipped text={title} onOpened={() => onOpened("title")} />
        </div>
      )}
      {form && (
        <p class="message">
          <Shown text={form.message} dir="auto" />
        </p>
      )}
      {subject.secrets.length > 0 && (
        <p class="note">
          <span class="chip risk-high">{words.question.secret}</span>{" "}
          {words.question.secretWhy(subject.secrets)}
        </p>
      )}
      {hidden > 0 && (
        <p class="note">
          <span class="chip risk-high">{words.question.hidden(hidden)}</span>{" "}
          {words.question.hiddenWhy}
        </p>
      )}
      {diffs.map((diff, index) => (
        <Change key={diff.path} diff={diff} onOpened={() => onOpened(diffPart(index))} />
      ))}
      <Details subject={subject} isTitleAll={isTitleAll} onOpened={onOpened} />
    </>
  );
}

function Details({ subject, isTitleAll, onOpened }: Props & { isTitleAll: boolean }) {
  return (
    <>
      <Part
        heading={words.question.arguments}
        text={subject.arguments}
        onOpened={() => onOpened("arguments")}
      />
      <Part
        heading={words.question.paths}
        text={otherPaths(subject)}
        onOpened={() => onOpened("paths")}
      />
      <Part
        heading={words.question.facts.agentSays}
        text={isTitleAll ? "" : shownTitle(subject)}
        onOpened={() => onOpened("title")}
      />
      <Part heading={words.question.said} text={subject.said} onOpened={() => onOpened("said")} />
    </>
  );
}

interface PartProps {
  heading: string;
  text: string | null;
  onOpened?: () => void;
}

function Part({ heading, text, onOpened }: PartProps) {
  if (!text) return null;
  return (
    <section class="part">
      <h2>{heading}</h2>
      <Clipped text={text} onOpened={onOpened} />
    </section>
  );
}
