/*
 * Scoped tokens, which the wire calls grants. A lease brings one for each of its jobs: the job's input commits and its
 * output branch, signed with a key that is derived from the root secret, for one access key and until the lease ends. Each
 * renewal brings another. Reads and uploads present it, and the gateway checks it without a call to anybody
 * (api/request/admit.ts). If it is good no more, as after a pause of the machine, the runner renews at once and tries
 * again; the renewal also says if the lease is lost.
 */

import { timingSafeEqual } from "node:crypto";
import { hkdf } from "@noble/hashes/hkdf.js";
import { hmac } from "@noble/hashes/hmac.js";
import { sha256 } from "@noble/hashes/sha2.js";
import { utf8ToBytes } from "@noble/hashes/utils.js";
import { z } from "zod";
import { jsonOf } from "../../protocol/json.ts";
import { type BranchAddress, bucketName, parseBucketName } from "../../protocol/names.ts";
import { LEASE_MS } from "../../protocol/runner.ts";
import { base64url, bytesOfBase64 } from "./base64url.ts";
import { ExpiringMap } from "./expiring-map.ts";

/** A commit that a datum reads; with `from`, only what was written after that commit. */
interface GrantedInput extends BranchAddress {
  readonly commit: string;
  readonly from: string | null;
}

/** What the holder of a lease may do with a runner's key: read its inputs, and write to and read from its output branch. */
export interface Grant {
  readonly pipeline: string;
  readonly inputs: readonly GrantedInput[];
  readonly output: BranchAddress;
}

interface Terms {
  /** The key that it is for: it serves no other. */
  readonly keyId: string;
  /** When it ends; milliseconds since 1970. */
  readonly until: number;
}

/** Why a text is no grant. */
export type GrantFault = "malformed" | "forged" | "of-another-key" | "expired";

/** Makes and reads grants. Neither asks anybody: a grant says all by itself, and only a root secret could have made it. */
export interface Grants {
  sign(grant: Grant, terms: Terms): string;
  open(
    text: string,
    reader: { readonly keyId: string; readonly now: number },
  ): { readonly ok: true; readonly grant: Grant } | { readonly ok: false; readonly fault: GrantFault };
}

/** Of the key that is derived from a root secret. Another use of the secret must have another. */
const PURPOSE = "sluice: grants of leases, version 1";
const KEY_BYTES = 32;
const VERSION = "1";
/** Most grants that an isolate remembers to have verified. */
const MAX_REMEMBERED = 1000;

/** What is signed, as JSON. The names are short because it travels with every request. */
const Signed = z.object({
  /** The id of the key. */
  k: z.string(),
  /** Until: milliseconds since 1970. */
  u: z.int(),
  p: z.string(),
  /** The bucket of the output branch. */
  o: z.string(),
  /** The bucket, the commit, and the commit after which it counts. */
  i: z.array(z.tuple([z.string(), z.string(), z.string().nullable()])),
});
type Signed = z.infer<typeof Signed>;

/** One per isolate. The first of the root secrets signs; what any of them signed is good. */
export function openGrants(rootSecrets: readonly [string, ...string[]]): Grants {
  const [signer, ...others] = rootSecrets.map(macOf);
  if (!signer) throw new Error("there is no root secret");
  // One grant serves many requests, and its signature does not change. Whose it is and when it ends is looked at each time.
  const verified = new ExpiringMap<Verified>({ ttlMs: LEASE_MS, maxEntries: MAX_REMEMBERED });
  return {
    sign: (grant, terms) => {
      const text = `${VERSION}.${base64url(utf8ToBytes(JSON.stringify(signedOf(grant, terms))))}`;
      return `${text}.${base64url(signer(text))}`;
    },
    open: (text, { keyId, now }) => {
      const remembered = verified.get(text, now);
      const known = remembered ?? verify(text, { signers: [signer, ...others] });
      if (typeof known === "string") return no(known);
      if (!remembered) verified.set(text, { value: known, since: now });
      if (known.keyId !== keyId) return no("of-another-key");
      return known.until > now ? { ok: true, grant: known.grant } : no("expired");
    },
  };
}

interface Verified extends Terms {
  readonly grant: Grant;
}

/** What a text says that one of the signers has signed. */
function verify(
  text: string,
  { signers }: { readonly signers: readonly ((text: string) => Uint8Array)[] },
): Verified | "malformed" | "forged" {
  const [version, payload = "", mac = "", ...rest] = text.split(".");
  const given = bytesOf(mac);
  if (version !== VERSION || rest.length > 0 || given?.length !== sha256.outputLen) return "malformed";
  const body = `${version}.${payload}`;
  if (!signers.some((make) => timingSafeEqual(make(body), given))) return "forged";
  // It is ours: what is in it is what was put in.
  const bytes = bytesOf(payload);
  const signed = bytes && Signed.safeParse(jsonOf(new TextDecoder().decode(bytes))).data;
  const grant = signed && grantOf(signed);
  return grant ? { grant, keyId: signed.k, until: signed.u } : "malformed";
}

function no(fault: GrantFault): { ok: false; fault: GrantFault } {
  return { ok: false, fault };
}

/** HMAC-SHA-256 under a key that is derived once (RFC 5869). */
function macOf(rootSecret: string): (text: string) => Uint8Array {
  const key = hkdf(sha256, utf8ToBytes(rootSecret), undefined, utf8ToBytes(PURPOSE), KEY_BYTES);
  const prepared = hmac.create(sha256, key);
  return (text) => prepared.clone().update(utf8ToBytes(text)).digest();
}

function signedOf({ pipeline, inputs, output }: Grant, { keyId, until }: Terms): Signed {
  return {
    k: keyId,
    u: until,
    p: pipeline,
    o: bucketName(output),
    i: inputs.map((input) => [bucketName(input), input.commit, input.from]),
  };
}

function grantOf({ p, o, i }: Signed): Grant | undefined {
  const output = parseBucketName(o);
  const inputs = i.flatMap(([bucket, commit, from]) => {
    const address = parseBucketName(bucket);
    return address ? [{ ...address, commit, from }] : [];
  });
  return output && { pipeline: p, inputs, output };
}

function bytesOf(text: string): Uint8Array | undefined {
  try {
    return bytesOfBase64(text);
  } catch {
    return undefined;
  }
}
