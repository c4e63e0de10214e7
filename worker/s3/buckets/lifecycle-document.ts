import { sha256 } from "@noble/hashes/sha2.js";
import { toHex } from "../../../protocol/digest.ts";
import { type ObjectTag, tagsFault } from "../../../protocol/object-tags.ts";
import { type LifecycleRule, midnightOf, type Term } from "../../core/lifecycle-rules.ts";
import { type S3Error, s3Error } from "../answer/errors.ts";
import {
  type KnownTags,
  malformed,
  onlyTags,
  type ParsedXml,
  parseXml,
  type Tags,
  tagsIn,
  tagsOf,
  textIn,
  type XmlTags,
} from "../answer/xml.ts";
import { MAX_LIFECYCLE_RULES, MAX_TAGS } from "../limits.ts";
import { checkedTags, parseTag } from "../objects/tag-set.ts";

const ROOT = "LifecycleConfiguration";
const MAX_ID_CHARACTERS = 255;
const MAX_PREFIX_BYTES = 1024;
const MAX_DAYS = 2_147_483_647;

/** What S3 knows and we do not, wherever it stands, and what to do instead. */
const NOT_HERE: ReadonlyMap<string, string> = new Map([
  ["Transition", "there is one storage class"],
  ["NoncurrentVersionTransition", "there is one storage class"],
  ["ObjectSizeGreaterThan", "choose objects by Prefix and Tag"],
  ["ObjectSizeLessThan", "choose objects by Prefix and Tag"],
  [
    "ExpiredObjectDeleteMarker",
    "a delete marker is a commit, and goes with it: use NoncurrentVersionExpiration, or 'sluice branch keep'",
  ],
  [
    "NewerNoncurrentVersions",
    "commits are kept, not versions of each key: use 'sluice branch keep --commits'",
  ],
]);

/**
 * The rules of a `LifecycleConfiguration`. Throws MalformedXML, InvalidArgument and InvalidRequest for what S3 refuses, and
 * NotImplemented, by name, for what S3 knows and we do not.
 */
export function parseLifecycle(text: string): LifecycleRule[] {
  const tags = tagsOf(parseXml(text, ROOT, { tags: MAX_TAGS.lifecycle }));
  only(tags, ROOT, { known: ["Rule"], many: ["Rule"] });
  const rules = tags.get("Rule") ?? [];
  if (rules.length === 0) throw malformed(`${ROOT} has no Rule: to take all away, delete the configuration`);
  if (rules.length > MAX_LIFECYCLE_RULES) {
    throw s3Error.InvalidRequest(
      `The number of lifecycle rules is ${rules.length}: it must not exceed the limit of ${MAX_LIFECYCLE_RULES}.`,
    );
  }
  return named(rules.map(parseRule));
}

/** The same as XML, in the order in which S3 lists it. */
export function lifecycleTags(rules: readonly LifecycleRule[]): XmlTags {
  return {
    Rule: rules.map(({ id, enabled, prefix, filter, tags = [], expiration, abortDays, noncurrentDays }) => ({
      Expiration: expiration && termTags(expiration),
      ID: id,
      Filter: filter === "none" ? undefined : filterTags({ filter, prefix, tags }),
      Prefix: filter === "none" ? prefix : undefined,
      Status: enabled ? "Enabled" : "Disabled",
      NoncurrentVersionExpiration:
        noncurrentDays === undefined ? undefined : { NoncurrentDays: noncurrentDays },
      AbortIncompleteMultipartUpload:
        abortDays === undefined ? undefined : { DaysAfterInitiation: abortDays },
    })),
  };
}

function filterTags({
  filter,
  prefix,
  tags,
}: Pick<LifecycleRule, "filter" | "prefix"> & { readonly tags: readonly ObjectTag[] }): XmlTags {
  if (filter === "empty") return {};
  const both = {
    Prefix: prefix === "" && filter !== "prefix" ? undefined : prefix,
    Tag: tags.map(([Key, Value]) => ({ Key, Value })),
  };
  return filter === "and" ? { And: both } : both;
}

function termTags(term: Term): XmlTags {
  return "days" in term ? { Days: term.days } : { Date: new Date(term.date).toISOString() };
}

/** A rule, whose id may have to be made yet. */
type Parsed = Omit<LifecycleRule, "id"> & { readonly id: string | undefined };

function parseRule(parsed: ParsedXml): Parsed {
  const tags = tagsOf(parsed);
  only(tags, "Rule", {
    known: [
      "ID",
      "Status",
      "Filter",
      "Prefix",
      "Expiration",
      "AbortIncompleteMultipartUpload",
      "NoncurrentVersionExpiration",
    ],
  });
  const id = textIn(tags, "ID")?.trim() || undefined;
  if (id !== undefined && id.length > MAX_ID_CHARACTERS) {
    throw s3Error.InvalidArgument(
      `The ID of a Rule has ${id.length} characters: at most ${MAX_ID_CHARACTERS} are allowed.`,
    );
  }
  const status = textIn(tags, "Status")?.trim();
  if (status !== "Enabled" && status !== "Disabled")
    throw malformed(`a Rule's Status is Enabled or Disabled, not '${status ?? ""}'`);
  const about = parseAbout(tags);
  const expiration = parseExpiration(tagsIn(tags, "Expiration"));
  const abortDays = parseDays(tagsIn(tags, "AbortIncompleteMultipartUpload"), {
    action: "AbortIncompleteMultipartUpload",
    tag: "DaysAfterInitiation",
  });
  const noncurrentDays = parseDays(tagsIn(tags, "NoncurrentVersionExpiration"), {
    action: "NoncurrentVersionExpiration",
    tag: "NoncurrentDays",
  });
  if (expiration === undefined && abortDays === undefined && noncurrentDays === undefined) {
    throw s3Error.InvalidRequest("At least one action needs to be specified in a rule.");
  }
  if (abortDays !== undefined && about.tags) {
    throw s3Error.InvalidRequest("AbortIncompleteMultipartUpload cannot be specified with Tags.");
  }
  if (noncurrentDays !== undefined && (about.prefix !== "" || about.tags)) {
    throw notHere(
      `NoncurrentVersionExpiration with a ${about.tags ? "Tag" : "Prefix"}`,
      "whole commits are kept, not versions of some keys: give it a rule of its own with an empty Filter",
    );
  }
  return {
    id,
    enabled: status === "Enabled",
    ...about,
    ...(expiration && { expiration }),
    ...(abortDays !== undefined && { abortDays }),
    ...(noncurrentDays !== undefined && { noncurrentDays }),
  };
}

/** Which keys a rule is about. A rule that does not say so is refused, as on S3: it would be about all. */
function parseAbout(tags: Tags): Pick<LifecycleRule, "prefix" | "filter" | "tags"> {
  const filter = tagsIn(tags, "Filter");
  const prefix = textIn(tags, "Prefix");
  if (filter && prefix !== undefined) throw malformed("a Rule has a Filter or a Prefix, not both");
  if (!filter) {
    if (prefix === undefined) throw malformed("a Rule needs a Filter: an empty one is about all keys");
    return { prefix: checkedPrefix(prefix), filter: "none" };
  }
  only(filter, "Filter", { known: ["Prefix", "Tag", "And"] });
  const given = [...filter.keys()];
  if (given.length > 1) throw malformed("a Filter has one of Prefix, Tag and And");
  const [kind] = given;
  const and = tagsIn(filter, "And");
  if (and) only(and, "And", { known: ["Prefix", "Tag"], many: ["Tag"] });
  if (and?.size === 0) throw malformed("an And holds a Prefix, Tags, or both");
  const text = textIn(and ?? filter, "Prefix") ?? "";
  const asked = parseTags((and ?? filter).get("Tag") ?? []);
  if (kind === undefined) return { prefix: "", filter: "empty" };
  if (asked.length === 0) return { prefix: checkedPrefix(text), filter: "prefix" };
  return { prefix: checkedPrefix(text), filter: and ? "and" : "tag", tags: asked };
}

function parseTags(values: readonly ParsedXml[]): ObjectTag[] {
  const tags = values.map(parseTag);
  if (tagsFault(tags) === "same-key") throw s3Error.InvalidRequest("Duplicate Tag Keys are not allowed.");
  return checkedTags(tags);
}

function checkedPrefix(prefix: string): string {
  if (new TextEncoder().encode(prefix).length <= MAX_PREFIX_BYTES) return prefix;
  throw s3Error.InvalidRequest(`The maximum size of a prefix is ${MAX_PREFIX_BYTES}.`);
}

function parseExpiration(tags: Tags | undefined): Term | undefined {
  if (!tags) return undefined;
  only(tags, "Expiration", { known: ["Days", "Date"] });
  const date = textIn(tags, "Date")?.trim();
  if (date === undefined)
    return { days: positive(textIn(tags, "Days")?.trim(), { action: "Expiration", tag: "Days" }) };
  if (tags.has("Days")) throw malformed("an Expiration has Days or a Date, not both");
  const time = timeOf(date);
  if (Number.isNaN(time)) throw malformed(`Date is '${date}': it must be a date of ISO 8601`);
  if (time !== midnightOf(time))
    throw s3Error.InvalidArgument(`'Date' must be at midnight GMT, not '${date}'.`);
  return { date: time };
}

/** NaN if it is none. */
function timeOf(date: string): number {
  const [, day] = /^(\d{4}-\d\d-\d\d)([T ].*(Z|[+-]\d\d:?\d\d))?$/.exec(date) ?? [];
  // Date.parse takes the 30th of February for the 2nd of March.
  const isDay = day !== undefined && new Date(day).toJSON()?.slice(0, 10) === day;
  return isDay ? Date.parse(date) : Number.NaN;
}

function parseDays(
  tags: Tags | undefined,
  { action, tag }: { action: string; tag: string },
): number | undefined {
  if (!tags) return undefined;
  only(tags, action, { known: [tag] });
  return positive(textIn(tags, tag)?.trim(), { action, tag });
}

function positive(text: string | undefined, { action, tag }: { action: string; tag: string }): number {
  if (text === undefined) throw malformed(`${action} needs ${tag}`);
  const days = /^[0-9]+$/.test(text) ? Number(text) : 0;
  if (days > MAX_DAYS) {
    throw s3Error.InvalidArgument(
      `'${tag}' for ${action} action must be at most ${MAX_DAYS}, not '${text}'.`,
    );
  }
  if (days >= 1) return days;
  throw s3Error.InvalidArgument(`'${tag}' for ${action} action must be a positive integer, not '${text}'.`);
}

/** Throws NotImplemented for what S3 knows there and we do not, and MalformedXML for all else that is not known. */
function only(tags: Tags, of: string, known: KnownTags): void {
  const other = (name: string) => {
    const fix = NOT_HERE.get(name);
    return fix === undefined ? undefined : notHere(name, fix);
  };
  onlyTags(tags, of, { ...known, other });
}

/** Gives rules an id that have none: one that the same rule has the next time, too. */
function named(rules: readonly Parsed[]): LifecycleRule[] {
  const taken = new Set<string>();
  for (const { id } of rules) {
    if (id === undefined) continue;
    if (taken.has(id))
      throw s3Error.InvalidArgument(`Rule ID must be unique. Found same ID for more than one rule: '${id}'.`);
    taken.add(id);
  }
  return rules.map((rule) => {
    if (rule.id !== undefined) return { ...rule, id: rule.id };
    const base = toHex(sha256(new TextEncoder().encode(JSON.stringify(rule))).subarray(0, 12));
    let id = base;
    for (let more = 2; taken.has(id); more++) id = `${base}-${more}`;
    taken.add(id);
    return { ...rule, id };
  });
}

function notHere(name: string, fix: string): S3Error {
  return s3Error.NotImplemented(`${name} in a lifecycle rule is not implemented: ${fix}.`);
}
