import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { GatewayError } from "../../protocol/requests.ts";
import type { Gateway } from "./gateway.ts";
import { type Live, useEndOfKey } from "./live.ts";
import { useSession } from "./session.tsx";

export interface OnceOptions {
  /** Counts up when the answer may be another one: what was there stays until the new one is. */
  readonly turn?: number;
  /** Absent: it is asked. */
  readonly enabled?: boolean;
}

type Name = readonly (string | number | undefined)[];

/** What is asked once and shown as it was: a folder, a file, a page of a list. `name` says what it is, without the turn. */
export function useOnce<T>(
  name: Name,
  ask: (gateway: Gateway, signal: AbortSignal) => Promise<T>,
  { turn = 0, enabled = true }: OnceOptions = {},
): Live<T> {
  const { gateway } = useSession();
  const { data, error, dataUpdatedAt, refetch } = useQuery<T, GatewayError>({
    queryKey: [gateway.keyId, ...name, turn],
    queryFn: ({ signal }) => ask(gateway, signal),
    enabled,
    retry: false,
    // Another page of the same thing begins anew: what is kept may be of before.
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    networkMode: "always",
    placeholderData: (before, query) => (isSame(query?.queryKey.slice(1, -1), name) ? before : undefined),
  });
  useEndOfKey(error);
  return { data, fault: error, heardAt: dataUpdatedAt, reload: () => void refetch() };
}

function isSame(one: readonly unknown[] | undefined, other: Name): boolean {
  return one?.length === other.length && other.every((part, index) => part === one[index]);
}

/** How often something became another thing since it was first known. */
export function useTurn(value: string | null | undefined): number {
  const [seen, setSeen] = useState({ value, turn: 0 });
  if (value === undefined || value === seen.value) return seen.turn;
  const turn = seen.value === undefined ? seen.turn : seen.turn + 1;
  setSeen({ value, turn });
  return turn;
}
