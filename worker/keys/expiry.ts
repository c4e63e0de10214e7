/** Whether a key is refused at a time, in milliseconds since 1970, since it has expired. */
export function hasExpired({ expiresAt }: { readonly expiresAt?: number | undefined }, now: number): boolean {
  return expiresAt !== undefined && expiresAt <= now;
}

/** What is said of a key that has expired, as the end of a sentence. */
export function expiryText(expiresAt: number): string {
  return `expired at ${new Date(expiresAt).toISOString()}`;
}
