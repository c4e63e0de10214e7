import { TOLD_FROM } from "../../protocol/repos.ts";

/** What the database of an object may have on Cloudflare. */
export const OBJECT_BYTES = 10_000_000_000;

/** Tells in the log of a database that is almost full: once for each hundredth, so that the log shows how fast it grows. */
export class SpaceWatch {
  /** How full it was when it was looked at last. */
  #hundredths = 0;

  /** `warn`: what to say of it, with its hundredths. Returns whether it was said. */
  look(used: number, warn: (hundredths: number) => string): boolean {
    const hundredths = Math.floor(used * 100);
    const isNews = used >= TOLD_FROM && hundredths > this.#hundredths;
    this.#hundredths = hundredths;
    if (isNews) console.warn(warn(hundredths));
    return isNews;
  }
}
