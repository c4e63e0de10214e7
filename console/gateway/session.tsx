import { createContext, useContext } from "react";
import type { GatewayError } from "../../protocol/requests.ts";
import { type Gateway, isOfKey } from "./gateway.ts";

/** Who is logged in. */
export interface Session {
  readonly gateway: Gateway;
  /** Forgets the key. `why`: what the person is told. */
  end(why?: string): void;
}

export const SessionContext = createContext<Session | undefined>(undefined);

/** What a person reads of something that went wrong. A key that is good no more ends the session. */
export function faultText(error: unknown, { end }: Session): string {
  if (isOfKey(error)) end(farewellOf(error));
  return error instanceof Error ? error.message : String(error);
}

/** What the login says after the gateway refused a key that it had taken. */
export function farewellOf({ message }: GatewayError): string {
  return `The key is no longer good: ${message}`;
}

/** The session; pages are shown only while there is one. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("no page is shown without a session");
  return session;
}
