import { usePage } from "../page";
import { allows, isStanding, type Option, type Subject } from "../subject";
import type { RoundTrip } from "../wire";
import { words } from "../words";
import { Shown } from "./Shown";

interface Props {
  roundTrip: RoundTrip;
  subject: Subject;
  /** Why nothing may be allowed yet; rejecting stays free. */
  locked: string | null;
  /** Whether one may stand out: in a list of low risk, never in the sheet of high risk. */
  inviting?: boolean;
}

/** Every option the agent offers, by its own name, in its order. */
export function Options({ roundTrip, subject, locked, inviting = false }: Props) {
  const { decisions } = usePage();
  const { options } = subject;
  const first = options.find((option) => allows(option) && !isStanding(option));
  return (
    <div class="options">
      {options.map((option) => (
        <button
          key={option.id}
          type="button"
          class={classOf(option, inviting && option === first)}
          disabled={locked !== null && allows(option)}
          onClick={() => decisions.decide(roundTrip, { optionId: option.id })}
        >
          <Shown text={nameOf(option, options)} />
          {isStanding(option) && <small>{words.question.standing}</small>}
        </button>
      ))}
    </div>
  );
}

function classOf(option: Option, stands: boolean): string {
  if (isStanding(option)) return "btn standing";
  return stands ? "btn go" : "btn";
}

// Two options may have one name; then their ids tell them apart.
function nameOf(option: Option, options: Option[]): string {
  const name = option.name || option.id;
  const isShared = options.some((other) => other !== option && other.name === option.name);
  return isShared ? words.question.sameName(name, option.id) : name;
}
