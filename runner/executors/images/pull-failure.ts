/** One try to pull, for the people who read why it failed. */
export interface Attempt {
  /** Whose credentials it was made with; undefined: as anybody. */
  readonly secret: string | undefined;
  readonly reason: string;
}

const MAX_ATTEMPTS_TOLD = 3;
const MAX_REASON_CHARACTERS = 400;

/** What the job's reason shows where an image can't be pulled: the registry's words for each try, and names of secrets alone. */
export function pullFailure({
  image,
  attempts,
  problems,
}: {
  image: string;
  attempts: readonly Attempt[];
  problems: readonly string[];
}): string {
  const told = attempts.slice(-MAX_ATTEMPTS_TOLD).map(({ secret, reason }) => {
    const by = secret === undefined ? "without credentials" : `with the credentials of secret "${secret}"`;
    return `${by}: ${shortened(reason)}`;
  });
  const left = attempts.length - told.length;
  const more = left > 0 ? [`${left} more failed before`] : [];
  const wrong = problems.slice(0, MAX_ATTEMPTS_TOLD).map(shortened);
  return `image "${shortened(image)}" can't be pulled ${[...told, ...more, ...wrong].join("; ")}`;
}

/** On one line, and bounded. */
export function shortened(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= MAX_REASON_CHARACTERS ? line : `${line.slice(0, MAX_REASON_CHARACTERS - 1)}…`;
}

/** Whether the registry was not even asked, so that other credentials are of no use. */
export function isUnreachable(reason: string): boolean {
  return /\bdial tcp\b|connection refused|no such host|no route to host|network is unreachable|i\/o timeout|TLS handshake|x509:|nothing was heard/i.test(
    reason,
  );
}
