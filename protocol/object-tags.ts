import { z } from "zod";

/** A tag of an object: its key and its value. Pairs, as a key may be any text, also `__proto__`. */
export type ObjectTag = readonly [key: string, value: string];

/** Most tags of an object, and most UTF-16 code units of a key and of a value (S3 User Guide, "Categorizing your objects using tags"). */
export const MAX_OBJECT_TAGS = 10;
const MAX_TAG_KEY = 128;
const MAX_TAG_VALUE = 256;

/** What a key and a value are made of (S3 API Reference, the pattern of `Tag` in S3 Control). */
const TAG_TEXT = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;
/** Keys that begin so are AWS's own. */
const SYSTEM_KEY = /^aws:/i;

/** What is wrong with the tags of an object. */
export type TagsFault = "too-many" | "bad-key" | "bad-value" | "system-key" | "same-key";

/** Why an object, or what may have `most` tags, can't have these; undefined if it can. */
export function tagsFault(tags: readonly ObjectTag[], most = MAX_OBJECT_TAGS): TagsFault | undefined {
  if (tags.length > most) return "too-many";
  const keys = new Set<string>();
  for (const [key, value] of tags) {
    if (key === "" || key.length > MAX_TAG_KEY || !TAG_TEXT.test(key)) return "bad-key";
    if (SYSTEM_KEY.test(key)) return "system-key";
    if (value.length > MAX_TAG_VALUE || !TAG_TEXT.test(value)) return "bad-value";
    if (keys.has(key)) return "same-key";
    keys.add(key);
  }
  return undefined;
}

/** One order for one set of tags, so that equal sets are equal lists. */
export function sortedTags(tags: readonly ObjectTag[]): ObjectTag[] {
  return tags.toSorted(([one], [other]) => (one < other ? -1 : Number(one > other)));
}

const TAGS_FAULT_TEXT: Record<TagsFault, string> = {
  "too-many": `must be ${MAX_OBJECT_TAGS} tags at most`,
  "bad-key": `must have keys of 1 to ${MAX_TAG_KEY} letters, digits, spaces and _.:/=+-@`,
  "bad-value": `must have values of up to ${MAX_TAG_VALUE} letters, digits, spaces and _.:/=+-@`,
  "system-key": "must have no key that begins with 'aws:'",
  "same-key": "must have each key once",
};

/** The tags of an object on the wire: pairs of a key and a value. */
export const ObjectTags = z
  .array(z.tuple([z.string(), z.string()]).readonly())
  .max(MAX_OBJECT_TAGS, { error: TAGS_FAULT_TEXT["too-many"] })
  .superRefine((tags, context) => {
    const fault = tagsFault(tags);
    if (fault) context.addIssue({ code: "custom", message: TAGS_FAULT_TEXT[fault] });
  })
  .readonly();
