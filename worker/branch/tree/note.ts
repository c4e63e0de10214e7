import type { CommitNote, Redaction } from "../contract/answers.ts";

/** What a client says of a commit, as a row of `commits` keeps it: the key has a column of its own. */
export function saidText({ message, meta }: CommitNote = {}): string | null {
  return message === undefined && meta === undefined ? null : JSON.stringify({ message, meta });
}

/** The same, once it was taken out. */
export function redactedText(redacted: Redaction): string {
  return JSON.stringify({ redacted });
}

/** The note of a row of `commits`; undefined if it has none. */
export function noteOfCommit({
  key,
  said,
}: {
  key: string | null;
  said: string | null;
}): CommitNote | undefined {
  if (key === null && said === null) return undefined;
  return { ...(key !== null && { key }), ...(said !== null && JSON.parse(said)) };
}

/** A whole note as text, for what becomes a commit later. */
export function noteText(note: CommitNote | undefined): string | null {
  return note === undefined ? null : JSON.stringify(note);
}

export function readNote(text: string | null): CommitNote | undefined {
  return text === null ? undefined : JSON.parse(text);
}

/** The note of a commit that somebody began and somebody ends: what is said at the end replaces what was said at the beginning. */
export function endNote(
  begun: CommitNote | undefined,
  ended: CommitNote | undefined,
): CommitNote | undefined {
  return begun && ended ? { ...begun, ...ended } : (ended ?? begun);
}
