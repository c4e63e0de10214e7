import { pathFault } from "../../../protocol/paths.ts";
import { type S3Code, S3Error } from "../errors.ts";
import { branchFailure, keyFailure } from "../failures.ts";
import { MAX_KEYS, MAX_XML_BYTES } from "../limits.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { readTextBody } from "../read-body.ts";
import { malformed, type ParsedXml, parseXml, tagsOf, xmlAnswer } from "../xml.ts";

interface Asked {
  readonly keys: readonly string[];
  readonly failed: readonly Failed[];
  readonly verbosity: "verbose" | "quiet";
}

interface Failed {
  readonly key: string;
  readonly code: S3Code;
  readonly message: string;
}

/** Up to 1,000 keys in one commit; a key that the tree cannot hold is an error of its own and stops no other. */
export const deleteObjects: Operation<BucketRequest> = {
  permission: "write",
  query: ["delete"],

  async handle(request) {
    const asked = parseDelete(await readTextBody(request, MAX_XML_BYTES));
    if (asked.keys.length > 0) {
      const done = await request.branch.commit({ operations: asked.keys.map((key) => ({ delete: key })) });
      if (!done.ok) throw branchFailure(done);
    } else {
      const status = await request.branch.status();
      if (!status.ok) throw branchFailure(status);
    }
    return xmlAnswer("DeleteResult", {
      Deleted: asked.verbosity === "quiet" ? [] : asked.keys.map((key) => ({ Key: key })),
      Error: asked.failed.map(({ key, code, message }) => ({ Key: key, Code: code, Message: message })),
    });
  },
};

function parseDelete(text: string): Asked {
  const tags = tagsOf(parseXml(text, "Delete"));
  const objects = tags.get("Object") ?? [];
  if (objects.length === 0) throw malformed("Delete has no Object");
  if (objects.length > MAX_KEYS) {
    throw malformed(`Delete has ${objects.length} Objects, at most ${MAX_KEYS} are taken`);
  }
  const unknown = [...tags.keys()].find((name) => name !== "Object" && name !== "Quiet");
  if (unknown !== undefined) throw malformed(`Delete holds ${unknown}, it may hold Object and Quiet`);
  const parsed = objects.map(parseObject);
  return {
    keys: parsed.filter((each) => typeof each === "string"),
    failed: parsed.filter((each) => typeof each !== "string"),
    verbosity: parseQuiet(tags.get("Quiet") ?? []) ? "quiet" : "verbose",
  };
}

function parseQuiet([quiet = "false", ...others]: readonly ParsedXml[]): boolean {
  const text = typeof quiet === "string" && others.length === 0 ? quiet.trim().toLowerCase() : "";
  if (text !== "true" && text !== "false") throw malformed("Quiet must be true or false");
  return text === "true";
}

/** The key, or why this one cannot be deleted. */
function parseObject(object: ParsedXml): string | Failed {
  const tags = tagsOf(object);
  const [key, ...others] = tags.get("Key") ?? [];
  if (typeof key !== "string" || others.length > 0) throw malformed("each Object must have one Key");
  const condition = [...tags.keys()].find((name) => name !== "Key");
  if (condition !== undefined) {
    return failure(
      key,
      new S3Error("NotImplemented", {
        message: `${condition} of an Object is not implemented: send the Key alone.`,
      }),
    );
  }
  const fault = pathFault(key);
  return fault === undefined ? key : failure(key, keyFailure(key, fault));
}

function failure(key: string, { code, message }: S3Error): Failed {
  return { key, code, message };
}
