import { type Egress, foreignHost } from "../../protocol/spec.ts";
import { EgressFault } from "./store-failure.ts";

/** What an egress URL says. */
export interface Destination {
  readonly kind: "s3" | "gs" | "azure";
  /** A bucket; of Azure, a container. */
  readonly bucket: string;
  /** The folder for the results: "" is the root; no slash at either end. */
  readonly dir: string;
  /** Azure's account if the URL names it, as Hadoop's URLs do, and its host if that is given, too. */
  readonly account?: { readonly name: string; readonly host?: string };
}

const KINDS: Readonly<Record<string, Destination["kind"]>> = {
  s3: "s3",
  gs: "gs",
  wasb: "azure",
  wasbs: "azure",
  as: "azure",
};

const SHAPE = "<scheme>://<bucket>/<dir> with the scheme s3, gs, wasb or as";
// Wide enough for every store. A key in front of the bucket does not match, and no message repeats it.
const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]*$/;

/**
 * Reads `<scheme>://<bucket>/<dir>`; for Azure also `<container>@<account>` and
 * `<container>@<account>.blob.core.windows.net`, as Hadoop writes them. The folder is taken as it is written, not
 * percent-decoded. Throws EgressFault.
 */
export function parseDestination(url: string): Destination {
  const [, scheme = "", authority = "", path = ""] = /^([a-z0-9]+):\/\/([^/]+)(.*)$/.exec(url) ?? [];
  const kind = KINDS[scheme];
  const [bucket = "", host, ...rest] = authority.split("@");
  if (!kind || !BUCKET.test(bucket) || rest.length > 0) throw new EgressFault(`egress.URL must be ${SHAPE}`);
  const dir = path.replace(/^\/+|\/+$/g, "");
  if (dir.split("/").some((segment) => segment === "." || segment === "..")) {
    throw new EgressFault("egress.URL can't have '.' or '..' as a folder");
  }
  const place = { kind, bucket, dir };
  if (host === undefined) return place;
  if (kind !== "azure" || !BUCKET.test(host)) {
    throw new EgressFault(`egress.URL must be ${SHAPE}: only Azure's may have an account, behind an '@'`);
  }
  const [name = ""] = host.split(".");
  return { ...place, account: host === name ? { name } : { name, host } };
}

/** Whether a destination is another one or lies below it. Folders count whole: `a/bc` is not below `a/b`. */
export function isWithin(inner: Destination, outer: Destination): boolean {
  const isSameBucket = inner.kind === outer.kind && inner.bucket === outer.bucket;
  if (!isSameBucket || accountHost(inner.account) !== accountHost(outer.account)) return false;
  return outer.dir === "" || inner.dir === outer.dir || inner.dir.startsWith(`${outer.dir}/`);
}

/** An account by its name is the account at Microsoft's host of that name. */
function accountHost(account: Destination["account"]): string | undefined {
  return account && (account.host ?? `${account.name}.blob.core.windows.net`).toLowerCase();
}

/** The name of a file in the store. */
export function objectKey({ dir }: Destination, path: string): string {
  return dir === "" ? path : `${dir}/${path}`;
}

const SCHEMES: Readonly<Record<Destination["kind"], string>> = { s3: "s3", gs: "gs", azure: "wasb" };

/** The store and the folder in it, for people. */
export function placeText({ kind, bucket, dir, account }: Destination): string {
  const authority = account ? `${bucket}@${account.host ?? account.name}` : bucket;
  return `${SCHEMES[kind]}://${authority}${dir === "" ? "" : `/${dir}`}`;
}

/** What the operator of a runner allows its egress. */
export interface EgressTerms {
  /** The credentials of the runner's environment serve what lies in these, and nothing else. */
  readonly environment: readonly Destination[];
  /** Whether a store may be at an address of this machine or of its link. */
  readonly local: boolean;
}

/** If the operator said nothing: an egress needs a secret, and a store that is elsewhere. */
export const STRICT_TERMS: EgressTerms = { environment: [], local: false };

interface EnvironmentUse {
  readonly egress: Egress;
  readonly destination: Destination;
  /** Whether the pipeline belongs to a limited key, as the lease says. */
  readonly limited: boolean;
}

/** Throws EgressFault unless the environment's credentials may be used for this. Most of it the gateway refuses. */
export function checkEnvironment(
  { environment }: EgressTerms,
  { egress, destination, limited }: EnvironmentUse,
): void {
  if (limited) {
    throw new EgressFault(
      "the pipeline belongs to a key that is limited to repos, which the environment of a runner does not serve: name credentials with egress.secret",
    );
  }
  const elsewhere =
    egress.endpoint !== undefined ? "egress.endpoint" : foreignHost(egress.URL) && "egress.URL";
  if (elsewhere) {
    throw new EgressFault(
      `${elsewhere} names an address that is not the vendor's: name the credentials for it with egress.secret`,
    );
  }
  if (environment.some((allowed) => isWithin(destination, allowed))) return;
  throw new EgressFault(
    `the environment of this runner does not serve ${placeText(destination)}: name credentials with egress.secret, ` +
      "or have the runner's operator allow it with --egress-environment",
  );
}
