/** A gateway can't start here; the message tells the person who started it what is in the way and what to do. */
export class HostError extends Error {
  override readonly name = "HostError";
}
