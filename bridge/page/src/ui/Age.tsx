import { useComputed } from "@preact/signals";
import { ago, duration, exactTime, instant } from "../age";
import { now } from "../clock";
import { usePage } from "../page";

interface Props {
  at: string | number | null | undefined;
  /** "4 min" instead of "4 min ago". */
  bare?: boolean;
  /** Said before it: "waits 4 min". */
  prefix?: string;
}

/** A time as its age, with the exact time on hover and for screen readers. */
export function Age({ at, bare = false, prefix = "" }: Props) {
  const { store } = usePage();
  const then = instant(at);
  const text = useComputed(() => {
    if (then === null) return "";
    const present = now.value + store.skew.value;
    return `${prefix}${bare ? duration(present - then) : ago(then, present)}`;
  });
  if (then === null) return null;
  return (
    <time class="age" dateTime={new Date(then).toISOString()} title={exactTime(then)}>
      {text}
    </time>
  );
}
