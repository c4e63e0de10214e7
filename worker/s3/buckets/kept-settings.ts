import type { Caller } from "../../app.ts";
import { CORS_METHODS, type CorsRule, isHeaderName } from "../../core/cors.ts";
import { holdingRules } from "../../core/lifecycle-rules.ts";
import { type S3Code, S3Error, s3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import {
  malformed,
  onlyTags,
  type ParsedXml,
  parseXml,
  tagsOf,
  type XmlTags,
  xmlAnswer,
} from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import type { BesideTree } from "../bucket-tree.ts";
import { MAX_CORS_BYTES, MAX_CORS_RULES, MAX_LIFECYCLE_BYTES, MAX_TAGS } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { lifecycleTags, parseLifecycle } from "./lifecycle-document.ts";

type Settings = Extract<Awaited<ReturnType<BesideTree["settings"]["read"]>>, { ok: true }>;
type Change = Parameters<BesideTree["settings"]["change"]>[0];

/** Rules of the whole branch, which it keeps as one document: read as they were put, replaced and taken away as a whole. */
interface KeptRules {
  readonly root: string;
  /** S3's code for none. */
  readonly absent: S3Code;
  readonly maxBytes: number;
  /** What is said of them on the bucket of an open commit or a commit. */
  readonly notOnView: string;
  /** Undefined: there are none. */
  readonly shown: (settings: Settings) => XmlTags | undefined;
  readonly replaced: (text: string, caller: Caller) => Change;
  readonly without: Change;
}

function operationsOn({ root, absent, maxBytes, notOnView, shown, replaced, without }: KeptRules) {
  const ofBranch = { permission: "admin", notOnView } as const;
  const get: Operation<BucketRequest> = {
    ...ofBranch,
    async handle({ branch }) {
      const tags = shown(accepted(await branch.settings.read()));
      if (tags === undefined) throw new S3Error(absent);
      return xmlAnswer(root, tags);
    },
  };
  const put: Operation<BucketRequest> = {
    ...ofBranch,
    async handle(request) {
      await configure(request, replaced(await readTextBody(request, maxBytes), request.caller));
      return new Response(null);
    },
  };
  /** 204 also if there are none. */
  const remove: Operation<BucketRequest> = {
    ...ofBranch,
    async handle(request) {
      await configure(request, without);
      return new Response(null, { status: 204 });
    },
  };
  return { get, put, remove };
}

/** Changes settings of the branch. What this isolate remembers of open branches goes also if the call fails, which may have been done. */
export async function configure({ branch, context }: BucketRequest, change: Change): Promise<void> {
  const done = await branch.settings.change(change);
  context.openBranches.forget();
  accepted(done);
}

/** Which pages from elsewhere may read answers of the branch. */
export const CORS = operationsOn({
  root: "CORSConfiguration",
  absent: "NoSuchCORSConfiguration",
  maxBytes: MAX_CORS_BYTES,
  notOnView:
    "CORS rules are those of the whole branch: name the bucket '<branch>.<repo>'. They hold for its open commits, commits and tags, too.",
  shown: ({ cors }) => (cors === null ? undefined : corsTags(cors)),
  replaced: (text) => ({ cors: parseCors(text) }),
  without: { cors: null },
});

/** By which files and uploads of the branch go with time. */
export const LIFECYCLE = operationsOn({
  root: "LifecycleConfiguration",
  absent: "NoSuchLifecycleConfiguration",
  maxBytes: MAX_LIFECYCLE_BYTES,
  notOnView: "Lifecycle rules are those of the whole branch: name the bucket '<branch>.<repo>'.",
  shown({ lifecycle, keep }) {
    const rules = holdingRules(lifecycle?.rules ?? [], keep);
    return rules.length === 0 ? undefined : lifecycleTags(rules);
  },
  replaced: (text, { keyId }) => ({ lifecycle: { rules: parseLifecycle(text), key: keyId } }),
  without: { lifecycle: null },
});

const ROOT = "CORSConfiguration";
const MAX_ID_CHARACTERS = 255;
const TAGS = [
  "ID",
  "AllowedHeader",
  "AllowedMethod",
  "AllowedOrigin",
  "ExposeHeader",
  "MaxAgeSeconds",
] as const;
type Tag = (typeof TAGS)[number];

/** The rules of a `CORSConfiguration`. Throws MalformedXML and InvalidRequest for what S3 refuses. */
function parseCors(text: string): CorsRule[] {
  const tags = tagsOf(parseXml(text, ROOT, { tags: MAX_TAGS.cors }));
  onlyTags(tags, ROOT, { known: ["CORSRule"], many: ["CORSRule"] });
  const rules = tags.get("CORSRule") ?? [];
  if (rules.length === 0)
    throw malformed(`${ROOT} has no CORSRule: to take all away, delete the configuration`);
  if (rules.length > MAX_CORS_RULES) {
    throw s3Error.InvalidRequest(
      `The number of CORS rules is ${rules.length}: it should not exceed the limit of ${MAX_CORS_RULES}.`,
    );
  }
  return rules.map(parseRule);
}

/** The same as XML, as S3 lists it. */
function corsTags(rules: readonly CorsRule[]): XmlTags {
  return {
    CORSRule: rules.map(({ id, headers, methods, origins, exposed, maxAgeSeconds }) => ({
      ID: id,
      AllowedHeader: headers,
      AllowedMethod: methods,
      AllowedOrigin: origins,
      ExposeHeader: exposed,
      MaxAgeSeconds: maxAgeSeconds,
    })),
  };
}

function parseRule(parsed: ParsedXml): CorsRule {
  const tags = onlyTags(tagsOf(parsed), "CORSRule", { known: TAGS, many: TAGS });
  const texts = (tag: Tag): string[] => (tags.get(tag) ?? []).map((value) => textOf(tag, value));
  // An empty method is none that there is, which S3 says as of any other.
  const methods = (tags.get("AllowedMethod") ?? []).map((value) =>
    value === "" ? "" : textOf("AllowedMethod", value),
  );
  const origins = texts("AllowedOrigin");
  if (methods.length === 0 || origins.length === 0) {
    throw malformed("each CORSRule needs an AllowedMethod and an AllowedOrigin at least");
  }
  const id = once("ID", texts("ID"));
  const maxAge = once("MaxAgeSeconds", texts("MaxAgeSeconds"));
  const [headers, exposed] = [texts("AllowedHeader"), texts("ExposeHeader")];
  checkMethods(methods);
  for (const origin of origins) checkPattern("AllowedOrigin", origin);
  for (const header of headers) checkPattern("AllowedHeader", header);
  for (const header of exposed) {
    if (header.includes("*")) {
      throw s3Error.InvalidRequest(
        `ExposeHeader "${header}" contains wildcard. We currently do not support wildcard for ExposeHeader.`,
      );
    }
  }
  for (const name of headers) checkHeaderName("AllowedHeader", name);
  for (const name of exposed) checkHeaderName("ExposeHeader", name);
  if (id !== undefined && id.length > MAX_ID_CHARACTERS) {
    throw s3Error.InvalidRequest(
      `The ID of a CORSRule has ${id.length} characters: at most ${MAX_ID_CHARACTERS} are allowed.`,
    );
  }
  return {
    ...(id !== undefined && { id }),
    origins,
    methods,
    headers,
    exposed,
    ...(maxAge !== undefined && { maxAgeSeconds: secondsOf(maxAge) }),
  };
}

function textOf(tag: Tag, value: ParsedXml): string {
  const text = typeof value === "string" ? value.trim() : undefined;
  if (text) return text;
  throw malformed(text === "" ? `${tag} is empty` : `${tag} holds text alone`);
}

function once(tag: Tag, [text, ...others]: readonly string[]): string | undefined {
  if (others.length > 0) throw malformed(`a CORSRule has one ${tag} at most`);
  return text;
}

function checkMethods(methods: readonly string[]): void {
  for (const method of methods) {
    if (CORS_METHODS.has(method)) continue;
    throw s3Error.InvalidRequest(
      `Found unsupported HTTP method in CORS config. Unsupported method is ${method}: it must be one of ${[...CORS_METHODS].join(", ")}.`,
    );
  }
}

function checkPattern(tag: Tag, text: string): void {
  if (text.split("*").length > 2)
    throw s3Error.InvalidRequest(`${tag} "${text}" can not have more than one wildcard.`);
}

/** A field name of RFC 9110, with a wildcard where there may be one: it goes into a header of answers. */
function checkHeaderName(tag: Tag, name: string): void {
  if (isHeaderName(name)) return;
  throw s3Error.InvalidRequest(`${tag} "${name}" is not the name of a header.`);
}

function secondsOf(text: string): number {
  if (/^[0-9]{1,9}$/.test(text)) return Number(text);
  throw malformed(`MaxAgeSeconds is '${text}': it must be a whole number of seconds`);
}
