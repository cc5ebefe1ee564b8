import { usePage } from "../page";
import { words } from "../words";

/** Says why somebody does not see a place, in place of buttons that would refuse. */
export function ForAdmins({ says }: { says: (role: string, tenant: string) => string }) {
  const me = usePage().store.me.value;
  if (!me) return <p class="empty">{words.inbox.loading}</p>;
  return <p class="empty">{says(me.role, me.tenant)}</p>;
}
