import { type UseQueryOptions, useQuery } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useState } from "react";
import type { GatewayError, Query } from "../../protocol/requests.ts";
import { type Gateway, isOfKey } from "./gateway.ts";

/*
 * Who is logged in, and what pages ask in their name: `useLive` asks again and again, `useOnce` and `useRead` ask once.
 */

export interface Session {
  readonly gateway: Gateway;
  /** False: a reload asks for the key again. */
  readonly isKept: boolean;
  /** Ends it in all tabs. `why`: what the person is told; absent: the person ends it, at the gateway too. */
  end(why?: string): void;
}

export const SessionContext = createContext<Session | undefined>(undefined);

/** The session; pages are shown only while there is one. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("no page is shown without a session");
  return session;
}

/** What a person reads of something that went wrong. A key that is good no more ends the session. */
export function faultText(error: unknown, { gateway, end }: Session): string {
  if (isOfKey(error)) end(farewellOf(error, gateway));
  return error instanceof Error ? error.message : String(error);
}

/** What the login says after the gateway refused what it had taken. */
function farewellOf({ message }: GatewayError, { isSession }: Gateway): string {
  return isSession ? ENDED : `The key is no longer good: ${message}`;
}

const ENDED =
  "The session has ended: somebody ended it, its 12 hours are over, or the key is no longer good.";

/** An answer of the gateway. If nothing answers any more, what was there stays. */
export interface Live<T> {
  readonly data: T | undefined;
  readonly fault: GatewayError | null;
  /** When the gateway last answered; milliseconds since 1970, 0: never. */
  readonly heardAt: number;
  reload(): void;
}

function useAnswer<T>(options: UseQueryOptions<T, GatewayError>): Live<T> {
  const { gateway, end } = useSession();
  const { data, error, dataUpdatedAt, refetch } = useQuery<T, GatewayError>({
    retry: false,
    // A browser that thinks it is offline may be wrong about a gateway on this machine.
    networkMode: "always",
    ...options,
  });
  const refused = isOfKey(error) ? farewellOf(error, gateway) : undefined;
  useEffect(() => {
    if (refused !== undefined) end(refused);
  }, [refused, end]);
  return { data, fault: error, heardAt: dataUpdatedAt, reload: () => void refetch() };
}

/** How often a page asks what is new: one request in 2 s is the most that an open page may cost. */
const POLL_MS = 2500;
/** After a refusal or a silence it asks less often. */
const POLL_AFTER_FAULT_MS = 5000;

interface LiveOptions<T> {
  readonly query?: Query;
  /** False: nothing is asked. */
  readonly isAsked?: boolean;
  /** What is never news, such as when a node was heard of, is at most so old. */
  readonly wholeAfterMs?: number;
  /** Whether an answer is the last word: nothing changes any more. */
  isOver?(data: T): boolean;
}

/** What a call of the control API answers, kept up to date by one poll, which stands still while nobody looks at the tab. */
export function useLive<T>(
  path: string,
  { query, wholeAfterMs, isOver, isAsked = true }: LiveOptions<T> = {},
): Live<T> {
  const { gateway } = useSession();
  return useAnswer<T>({
    queryKey: [gateway.keyId, path, query ?? null],
    queryFn: ({ signal }) => gateway.call<T>(path, { signal, query, wholeAfterMs }),
    enabled: isAsked,
    // To come back to the tab asks anew, but not more often than the poll would.
    staleTime: POLL_MS,
    refetchInterval: ({ state }) => {
      if (state.error) return POLL_AFTER_FAULT_MS;
      return state.data !== undefined && isOver?.(state.data) ? false : POLL_MS;
    },
    refetchIntervalInBackground: false,
  });
}

interface OnceOptions {
  /** Counts up when the answer may be another one: what was there stays until the new one is. */
  readonly turn?: number;
  /** False: nothing is asked. */
  readonly isAsked?: boolean;
}

/** What a call of the control API answers, asked once. */
export function useOnce<T>(
  path: string,
  { query, ...options }: OnceOptions & { readonly query?: Query } = {},
): Live<T> {
  const ask = (gateway: Gateway, signal: AbortSignal) => gateway.call<T>(path, { signal, query });
  return useRead([path, JSON.stringify(query)], ask, options);
}

type Name = readonly (string | number | undefined)[];

/** What is read once and shown as it was: a folder, a file. `name` says what it is, without the turn. */
export function useRead<T>(
  name: Name,
  read: (gateway: Gateway, signal: AbortSignal) => Promise<T>,
  { turn = 0, isAsked = true }: OnceOptions = {},
): Live<T> {
  const { gateway } = useSession();
  return useAnswer<T>({
    queryKey: [gateway.keyId, ...name, turn],
    queryFn: ({ signal }) => read(gateway, signal),
    enabled: isAsked,
    // Another page of the same thing begins anew: what is kept may be of before.
    gcTime: 0,
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: (before, query) => {
      const known = query?.queryKey.slice(1, -1);
      const isSame = known?.length === name.length && name.every((part, index) => part === known[index]);
      return isSame ? before : undefined;
    },
  });
}

/** How often something became another thing since it was first known. */
export function useTurn(value: string | null | undefined): number {
  const [seen, setSeen] = useState({ value, turn: 0 });
  if (value === undefined || value === seen.value) return seen.turn;
  const turn = seen.value === undefined ? seen.turn : seen.turn + 1;
  setSeen({ value, turn });
  return turn;
}
