import type { CommitNote, Redaction } from "../contract.ts";

/** What a client says of a commit, as a row of `commits` keeps it: the key has a column of its own. */
export function saidText({ message, meta }: CommitNote = {}): string | null {
  return message === undefined && meta === undefined ? null : JSON.stringify({ message, meta });
}

/** The same, once it was taken out. An earlier release shows neither message nor metadata then. */
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
  return { ...(key !== null && { key }), ...(said !== null && soundParts(JSON.parse(said))) };
}

/** Releases before took any note out of an archive. What is none is not shown: it would take the list of commits along. */
function soundParts(said: unknown): Omit<CommitNote, "key"> {
  if (typeof said !== "object" || said === null) return {};
  const { message, meta, redacted } = said as Record<string, unknown>;
  return {
    ...(typeof message === "string" && { message }),
    ...(isTexts(meta) && { meta }),
    ...(isRedaction(redacted) && { redacted }),
  };
}

function isTexts(meta: unknown): meta is Readonly<Record<string, string>> {
  if (typeof meta !== "object" || meta === null || Array.isArray(meta)) return false;
  return Object.values(meta).every((value) => typeof value === "string");
}

function isRedaction(redacted: unknown): redacted is Redaction {
  if (typeof redacted !== "object" || redacted === null) return false;
  const { at, by } = redacted as Partial<Redaction>;
  return Number.isSafeInteger(at) && typeof by === "string";
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
