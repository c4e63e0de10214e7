/** What one check of `sluice doctor` came to. */
export interface Finding {
  /** What was looked at, such as `docker`. */
  readonly check: string;
  /** `warn`: a runner works without it, or may not for long; `fail`: none works so. */
  readonly state: "ok" | "warn" | "fail";
  /** What is there. */
  readonly found: string;
  /** What to do about it. */
  readonly fix?: string;
}
