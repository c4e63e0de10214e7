import { z } from "zod";
import { utf8Length } from "./paths.ts";

/** Most bytes (UTF-8) of what one request says of its commit: the message, and the names and values of the metadata. */
export const MAX_ANNOTATION_BYTES = 2048;

/** A text that stays on one line: in a terminal, and as the value of a header (RFC 9110 §5.5). */
export const Line = z
  .string()
  .regex(/^[^\u0000-\u0008\u000a-\u001f\u007f]*$/, { error: "must not hold control characters" })
  .refine((text) => text.isWellFormed(), { error: "must be valid Unicode" });
/** The name of an entry of a commit's metadata: it can stand at the end of a header's name. */
export const ANNOTATION_NAME_PATTERN = /^[a-z0-9][a-z0-9._-]*$/;
const AnnotationName = z.string().regex(ANNOTATION_NAME_PATTERN, {
  error: "must begin with a lower-case letter or digit and hold only those, '.', '_' and '-'",
});

/** What a client may say of the commit that its request makes. */
export const ANNOTATION_FIELDS = {
  message: Line.refine((text) => text !== "", { error: "must not be empty: leave it out" }).optional(),
  meta: z.record(AnnotationName, Line).optional(),
};
/** What somebody says of a commit. */
export interface SaidOfCommit {
  readonly message?: string | undefined;
  readonly meta?: Readonly<Record<string, string>> | undefined;
}

/** How many bytes that is; MAX_ANNOTATION_BYTES is the bound. */
export function annotationBytes({ message = "", meta = {} }: SaidOfCommit): number {
  const texts = [message, ...Object.entries(meta).flat()];
  return texts.reduce((bytes, text) => bytes + utf8Length(text), 0);
}

/** Refuses, in a body, what is more than a commit keeps. */
export function boundAnnotation(said: SaidOfCommit, context: Pick<z.RefinementCtx, "addIssue">): void {
  const bytes = annotationBytes(said);
  if (bytes <= MAX_ANNOTATION_BYTES) return;
  const message = `is too long: message and meta have ${bytes} bytes together, names and values; at most ${MAX_ANNOTATION_BYTES} are kept`;
  context.addIssue({ code: "custom", path: [said.message === undefined ? "meta" : "message"], message });
}

/** The body of a request that says nothing else. */
export const SaidAnnotation = z
  .strictObject(ANNOTATION_FIELDS)
  .superRefine((said, context) => boundAnnotation(said, context));
