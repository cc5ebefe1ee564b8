import type { Names } from "../outcome";
import { usePage } from "../page";

/** How the people and the machine of an agent are called. */
export function useNames(agentId: string): Names & { agent: string } {
  const { store } = usePage();
  const agent = store.agentOf(agentId);
  return {
    isMe: (who) => store.isMe(who),
    host: agent?.host ?? "",
    agent: agent?.title || agent?.name || "",
  };
}
