import type { Caller } from "../../app.ts";
import { holdingRules } from "../../core/lifecycle-rules.ts";
import { type S3Code, S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { type XmlTags, xmlAnswer } from "../answer/xml.ts";
import { readTextBody } from "../body/read-body.ts";
import type { BesideTree } from "../bucket-tree.ts";
import { MAX_CORS_BYTES, MAX_LIFECYCLE_BYTES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { corsTags, parseCors } from "./cors-document.ts";
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
  const get: Operation<BucketRequest> = {
    permission: "admin",
    notOnView,

    async handle({ branch }) {
      const tags = shown(accepted(await branch.settings.read()));
      if (tags === undefined) throw new S3Error(absent);
      return xmlAnswer(root, tags);
    },
  };
  const put: Operation<BucketRequest> = {
    permission: "admin",
    notOnView,

    async handle(request) {
      await configure(request, replaced(await readTextBody(request, maxBytes), request.caller));
      return new Response(null);
    },
  };
  /** 204 also if there are none. */
  const remove: Operation<BucketRequest> = {
    permission: "admin",
    notOnView,

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
