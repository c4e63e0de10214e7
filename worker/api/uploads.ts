import { createHash } from "node:crypto";
import { z } from "zod";
import {
  type ContentId,
  contentName,
  Digest,
  type InlineContent,
  parseContentName,
} from "../../protocol/content.ts";
import {
  AddInlineContents,
  ComposeContent,
  type ContentComposed,
  type ContentsReserved,
  OpenUpload,
  PART_BYTES,
  ReserveContents,
  type UploadOpened,
} from "../../protocol/files.ts";
import { type BranchAddress, parseUploadId } from "../../protocol/names.ts";
import { blobsNear } from "../app.ts";
import { sentBody } from "../blobs/body-reader.ts";
import { BroughtBlobs } from "../blobs/brought-blobs.ts";
import { composeContent, type Slice } from "../blobs/compose/compose-content.ts";
import type { Content } from "../blobs/content.ts";
import { readContent } from "../blobs/read/read-content.ts";
import { writeContent } from "../blobs/write-content.ts";
import type { BranchApi } from "../branch/contract/api.ts";
import { UPLOAD_LEASE_MS } from "../branch/contract/uploads.ts";
import { hasLevel, refusalText } from "../core/permissions.ts";
import { apiError } from "./answer/errors.ts";
import { accepted, branchError, writeError } from "./answer/failures.ts";
import { type ApiRequest, branchInPath, readJson, readQuery } from "./request/api-request.ts";

/** A body that brings nothing for so long is given up. */
const IDLE_MS = 30_000;

/** The repo of the branch that an upload is to be opened for. */
export async function newUploadRepo(asked: ApiRequest): Promise<readonly string[]> {
  return [(await readJson(asked, OpenUpload)).repo];
}

/** `POST /uploads`. One for a lease is for who leases: its pipeline alone ends it, and knows of no lease that it has not made. */
export async function openUpload(asked: ApiRequest): Promise<Response> {
  const { repo, branch, lease } = await readJson(asked, OpenUpload);
  const { scope } = asked.caller;
  if (lease !== undefined && !hasLevel(scope, "work")) {
    throw apiError.AccessDenied(refusalText(scope, { permission: "work" }));
  }
  const opened = await asked.context
    .branch({ repo, branch })
    .uploads.open(lease === undefined ? { key: asked.caller.keyId } : { lease });
  if (!opened.ok) throw branchError(opened, { repo, branch });
  const { upload } = opened;
  return Response.json({ upload, partBytes: PART_BYTES } satisfies z.infer<typeof UploadOpened>, {
    status: 201,
  });
}

/** `POST /uploads/{id}/reserve`. It precedes new files, those of bytes that the branch has already too. */
export async function reserveContents(asked: ApiRequest): Promise<Response> {
  await asked.context.blobs.admit?.();
  const { branch, upload } = uploadOf(asked);
  const { contents } = await readJson(asked, ReserveContents);
  const reserved = accepted(await branch.uploads.reserve({ upload, contents }));
  return Response.json({ missing: reserved.missing } satisfies z.infer<typeof ContentsReserved>);
}

/** `POST /uploads/{id}/contents`: many small contents in one call. */
export async function addInlineContents(asked: ApiRequest): Promise<Response> {
  const { branch, upload } = uploadOf(asked);
  const { contents } = await readJson(asked, AddInlineContents);
  await asked.context.blobs.admit?.(contents.reduce((sum, { size }) => sum + size, 0));
  accepted(
    await branch.uploads.add({
      upload,
      contents: contents.map((content, index) => inlineContent(content, `contents[${index}]`)),
    }),
  );
  return new Response(null, { status: 204 });
}

const ContentQuery = z.strictObject({
  digest: Digest,
  size: z
    .string()
    .regex(/^\d{1,15}$/, { error: "must be a number of bytes" })
    .transform(Number),
});

/** `PUT /uploads/{id}/contents?digest=&size=`: one content of any size, as the body. */
export async function addContent(asked: ApiRequest): Promise<Response> {
  const { branch, upload } = uploadOf(asked);
  const id = readQuery(asked, ContentQuery);
  const { uid } = await keepOpen(branch, upload);
  const { body } = asked.request;
  const sha256 = asked.bodySha256;
  return await BroughtBlobs.during(asked.context.blobs, async (blobs) => {
    const written = await writeContent(body && sentBody(body), {
      store: blobs,
      openUpload: async () => ({ upload, uid }),
      renewUpload: async () => void (await keepOpen(branch, upload)),
      uploadLeaseMs: UPLOAD_LEASE_MS,
      declaredSize: id.size,
      expect: { digest: id, ...(sha256 !== null && { sha256 }) },
      now: Date.now,
      idleMs: IDLE_MS,
    });
    if (!written.ok) throw writeError(written.reason);
    accepted(await blobs.handOver(() => branch.uploads.add({ upload, contents: [written.content] })));
    return Response.json(id satisfies ContentId);
  });
}

/** `POST /uploads/{id}/compose`: one content out of others that the upload holds. */
export async function composeContents(asked: ApiRequest): Promise<Response> {
  const { branch, upload } = uploadOf(asked);
  const { parts, content: expected } = await readJson(asked, ComposeContent);
  const { uid } = await keepOpen(branch, upload);
  return await BroughtBlobs.during(asked.context.blobs, async (blobs) => {
    const { content } = await composeContent(partsOf(branch, { upload, parts }), {
      store: blobs,
      owner: { uid, upload },
    });
    if (expected && contentName(expected) !== contentName(content)) {
      throw apiError.InvalidRequest(
        `The parts make up ${contentName(content)}, but content says ${contentName(expected)}.`,
      );
    }
    // The upload held the parts when they were read, and lets go of nothing before its end: they are in that life still.
    const composed = { ...content, keeps: parts };
    accepted(await blobs.handOver(() => branch.uploads.add({ upload, contents: [composed] })));
    const { digest, size } = content;
    return Response.json({ digest, size } satisfies z.infer<typeof ContentComposed>);
  });
}

/** Where the parts' bytes are, asked for as many at a time as an answer holds. */
async function* partsOf(
  branch: BranchApi,
  { upload, parts }: { upload: string; parts: readonly ContentId[] },
): AsyncGenerator<Slice> {
  for (let next = 0; next < parts.length; ) {
    const page = accepted(await branch.uploads.bodies({ upload, contents: parts.slice(next) }));
    const lacking = parts[next];
    if (page.bodies.length === 0 && lacking) {
      const message = `the upload does not hold ${contentName(lacking)}: add it or reserve it first`;
      throw apiError.NoSuchContent(`parts[${next}]: ${message}`, {
        issues: [{ path: `parts[${next}]`, message }],
      });
    }
    yield* page.bodies.map((body, index) => ({ body, size: parts[next + index]?.size ?? 0 }));
    next += page.bodies.length;
  }
}

/** A content that came inside a message. Throws InvalidRequest if its bytes do not have its digest and size. */
export function inlineContent({ digest, size, bytes: base64 }: InlineContent, path: string): Content {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const real = createHash("sha256").update(bytes).digest("hex");
  if (real === digest && bytes.length === size) return { digest, size, body: { kind: "inline", bytes } };
  const message = `bytes are ${real}-${bytes.length}, but digest and size say ${digest}-${size}`;
  throw apiError.InvalidRequest(`The request is not valid: ${path}: ${message}`, {
    issues: [{ path, message }],
  });
}

/** The repo of the upload in the path: its id names it. */
export function uploadRepo(asked: ApiRequest): readonly string[] {
  return [uploadAddress(asked).repo];
}

function uploadOf(asked: ApiRequest): { branch: BranchApi; upload: string } {
  return { branch: asked.context.branch(uploadAddress(asked)), upload: asked.params.upload ?? "" };
}

/** The branch of the upload in the path. Throws NoSuchUpload if it can't be one. */
export function uploadAddress({ params }: ApiRequest): BranchAddress {
  const address = parseUploadId(params.upload ?? "");
  if (!address) throw branchError({ ok: false, reason: "no-such-upload" });
  return address;
}

async function keepOpen(branch: BranchApi, upload: string): Promise<{ uid: string }> {
  return accepted(await branch.uploads.renew({ upload }));
}

/**
 * `GET /repos/{repo}/branches/{branch}/contents/{digest}-{size}`: the bytes of a content, without a path. Runners also
 * read what a deleted branch held, since their jobs began before it was deleted.
 */
export async function readContents(asked: ApiRequest): Promise<Response> {
  const { content = "" } = asked.params;
  const id = parseContentName(content);
  if (!id) throw apiError.InvalidRequest(`'${content}' is not a content: it is '<64 hex digits>-<size>'.`);
  const { branch, address } = branchInPath(asked);
  const liveOnly = !hasLevel(asked.caller.scope, "work");
  const found = await branch.files.content({ ...id, liveOnly });
  if (!found.ok) throw apiError.NotFound(`The branch does not have the content '${content}'.`);
  const headers = {
    "content-type": "application/octet-stream",
    "content-length": String(id.size),
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox",
  };
  const { hold } = asked.context;
  const bytes = await readContent(blobsNear(asked.context), {
    body: found.body,
    size: id.size,
    hold: hold(address),
  });
  return new Response(bytes, { headers });
}
