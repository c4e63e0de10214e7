import { type QueryKey, useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import type { GatewayError, Query } from "../../protocol/requests.ts";
import { isOfKey } from "./gateway.ts";
import { farewellOf, useSession } from "./session.tsx";

/** How often a page asks what is new: one request in 2 s is the most that an open page may cost. */
const POLL_MS = 2500;
/** After a refusal or a silence it asks less often. */
const POLL_AFTER_FAULT_MS = 5000;

export interface Live<T> {
  readonly data: T | undefined;
  readonly fault: GatewayError | null;
  /** When the gateway last answered; milliseconds since 1970, 0: never. */
  readonly heardAt: number;
  reload(): void;
}

export interface LiveOptions<T> {
  readonly query?: Query;
  /** False: nothing is asked. */
  readonly isAsked?: boolean;
  /** Whether an answer is the last word: nothing changes any more. */
  isOver?(data: T): boolean;
}

/**
 * What a call of the control API answers, kept up to date by one poll, which stands still while nobody looks at the tab. If
 * nothing answers, what was there stays.
 */
export function useLive<T>(path: string, { query, isOver, isAsked = true }: LiveOptions<T> = {}): Live<T> {
  const { gateway } = useSession();
  const { data, error, dataUpdatedAt, refetch } = useQuery<T, GatewayError>({
    queryKey: liveKey(gateway.keyId, path, query),
    queryFn: ({ signal }) => gateway.call<T>(path, { signal, ...(query && { query }) }),
    enabled: isAsked,
    retry: false,
    // To come back to the tab asks anew, but not more often than the poll would.
    staleTime: POLL_MS,
    refetchInterval: ({ state }) => {
      if (state.error) return POLL_AFTER_FAULT_MS;
      return state.data !== undefined && isOver?.(state.data) ? false : POLL_MS;
    },
    refetchIntervalInBackground: false,
    // A browser that thinks it is offline may be wrong about a gateway on this machine.
    networkMode: "always",
  });
  useEndOfKey(error);
  return { data, fault: error, heardAt: dataUpdatedAt, reload: () => void refetch() };
}

/** Ends the session if its key is refused as a key. */
export function useEndOfKey(error: GatewayError | null): void {
  const { end } = useSession();
  const refused = isOfKey(error) ? farewellOf(error) : undefined;
  useEffect(() => {
    if (refused !== undefined) end(refused);
  }, [refused, end]);
}

function liveKey(keyId: string, path: string, query: Query | undefined): QueryKey {
  return [keyId, path, query ?? null];
}
