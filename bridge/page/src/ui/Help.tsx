import { Fragment } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { helpOpen } from "../keys";
import { words } from "../words";

/** The keys, in a dialog. */
export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const isOpen = helpOpen.value;
  useEffect(() => {
    if (isOpen) dialog.current?.showModal();
  }, [isOpen]);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="help-heading"
      onClose={() => {
        helpOpen.value = false;
      }}
    >
      <h2 id="help-heading">{words.help.heading}</h2>
      <dl class="facts">
        {words.help.rows.map(([keys, what]) => (
          <Fragment key={keys}>
            <dt>
              {keys.split("  ").map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </Fragment>
        ))}
      </dl>
      <form method="dialog">
        <button type="submit" class="btn">
          {words.close}
        </button>
      </form>
    </dialog>
  );
}
