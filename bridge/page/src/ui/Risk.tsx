import type { Risk } from "../wire";
import { words } from "../words";

/** How much an answer can do, in words and colour. */
export function RiskChip({ risk, short = false }: { risk: Risk; short?: boolean }) {
  return (
    <span class={`chip risk-${risk}`}>
      {short ? words.question.riskShort[risk] : words.question.risk[risk]}
    </span>
  );
}
