import type { Annotation, Redaction } from "../contract/answers.ts";

/** What a client says of a commit, as a row of `commits` keeps it: the key has a column of its own. */
export function saidText({ message, meta }: Annotation = {}): string | null {
  return message === undefined && meta === undefined ? null : JSON.stringify({ message, meta });
}

/** The same, once it was taken out. */
export function redactedText(redacted: Redaction): string {
  return JSON.stringify({ redacted });
}

/** The annotation of a row of `commits`; undefined if it has none. */
export function annotationOfCommit({
  key,
  annotation,
}: {
  key: string | null;
  annotation: string | null;
}): Annotation | undefined {
  if (key === null && annotation === null) return undefined;
  return { ...(key !== null && { key }), ...(annotation !== null && JSON.parse(annotation)) };
}

/** A whole annotation as text, for what becomes a commit later. */
export function annotationText(annotation: Annotation | undefined): string | null {
  return annotation === undefined ? null : JSON.stringify(annotation);
}

export function readAnnotation(text: string | null): Annotation | undefined {
  return text === null ? undefined : JSON.parse(text);
}

/** The annotation of a commit that somebody began and somebody ends: what is said at the end replaces what was said at the beginning. */
export function endAnnotation(
  begun: Annotation | undefined,
  ended: Annotation | undefined,
): Annotation | undefined {
  return begun && ended ? { ...begun, ...ended } : (ended ?? begun);
}
