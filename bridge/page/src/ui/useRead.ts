import { useCallback, useEffect, useRef, useState } from "preact/hooks";

export interface Read<T> {
  value: T | null;
  problem: string | null;
  isReading: boolean;
  again: () => Promise<void>;
}

/** Reads something from the relay, and again when what it depends on changes; the newest counts. */
export function useRead<T>(read: () => Promise<T>, on: unknown[] = []): Read<T> {
  const [value, setValue] = useState<T | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [isReading, setReading] = useState(true);
  const asked = useRef(0);
  const again = useCallback(async () => {
    asked.current += 1;
    const mine = asked.current;
    const isNewest = () => mine === asked.current;
    setReading(true);
    try {
      const found = await read();
      if (isNewest()) setValue(() => found);
      if (isNewest()) setProblem(null);
    } catch (error) {
      if (isNewest()) setProblem((error as Error).message);
    } finally {
      if (isNewest()) setReading(false);
    }
  }, on);
  useEffect(() => {
    void again();
  }, [again]);
  return { value, problem, isReading, again };
}
