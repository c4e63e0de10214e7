import { claimPort } from "../../embedded/port.ts";

/** A TCP port of 127.0.0.1 that nobody listens on, and that nobody is given who does not ask for it. */
export function freePort(): Promise<number> {
  return claimPort("127.0.0.1", 0);
}
