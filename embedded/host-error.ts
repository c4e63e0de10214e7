/** Why a gateway can't start here, in words for the person who started it: what is in the way and what to do. */
export class HostError extends Error {
  override readonly name = "HostError";
}
