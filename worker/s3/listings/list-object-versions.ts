import type { VersionEntry, VersionList, VersionMark } from "../../branch/contract/files.ts";
import { S3Error } from "../answer/errors.ts";
import { accepted } from "../answer/failures.ts";
import { etag, isoDate, OWNER, STORAGE_CLASS } from "../answer/fields.ts";
import { type XmlTags, xmlAnswer } from "../answer/xml.ts";
import { existing } from "../bucket-tree.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { type KeyEncoding, type ListingParameters, listingParameters, prefixTags } from "./listing.ts";

/** Every version of every key, a deletion being one too, the newest of a key first. The id of a version is its commit's. */
export const listObjectVersions: Operation<BucketRequest> = {
  permission: "list",
  notOnView:
    "The bucket of an open commit, a commit or a tag has no versions: list those of the branch's own bucket.",

  async handle(request) {
    const { bucket, query } = request;
    const asked = listingParameters(request);
    const after = markOf(query);
    const page = await listVersions(request, { ...asked, after });
    const { encoding } = asked;
    const head = {
      Name: bucket,
      Prefix: encoding.key(asked.prefix),
      KeyMarker: encoding.key(after?.path ?? ""),
      VersionIdMarker: after?.version ?? "",
      NextKeyMarker: page.next === null ? undefined : encoding.key(page.next.path),
      NextVersionIdMarker: page.next?.version,
      MaxKeys: asked.maxKeys,
      Delimiter: asked.delimiter,
      EncodingType: encoding.type,
      IsTruncated: page.truncated,
    };
    const versions = page.entries.filter(isVersion).map((entry) => versionTags(entry, encoding));
    const prefixes = { CommonPrefixes: prefixTags(page.entries, encoding) };
    return xmlAnswer("ListVersionsResult", [head, ...versions, prefixes]);
  },
};

/** An empty marker counts as absent: older clients begin with both of them empty. */
function markOf(query: ReadonlyMap<string, string>): VersionMark | undefined {
  const path = query.get("key-marker");
  const version = query.get("version-id-marker");
  if (path) return version ? { path, version } : { path };
  if (!version) return undefined;
  throw new S3Error("InvalidArgument", {
    message: `version-id-marker is '${version}', but key-marker is missing: give both as the page before had them.`,
  });
}

async function listVersions(
  { tree, branch }: Pick<BucketRequest, "tree" | "branch">,
  { prefix, delimiter, maxKeys, after }: ListingParameters & { readonly after: VersionMark | undefined },
): Promise<VersionList> {
  if (maxKeys === 0) {
    await existing(tree);
    return { ok: true, entries: [], truncated: false, next: null };
  }
  const page = await branch.files.versions({
    prefix,
    limit: maxKeys,
    ...(delimiter && { delimiter }),
    ...(after && { after }),
  });
  return accepted(page);
}

type Version = Exclude<VersionEntry, { kind: "prefix" }>;

function isVersion(entry: VersionEntry): entry is Version {
  return entry.kind !== "prefix";
}

function versionTags(entry: Version, encoding: KeyEncoding): XmlTags {
  const said = {
    Key: encoding.key(entry.path),
    VersionId: entry.version,
    IsLatest: entry.latest,
    LastModified: isoDate(entry.modifiedAt),
  };
  if (entry.kind === "deletion") return { DeleteMarker: { ...said, Owner: OWNER } };
  return {
    Version: {
      ...said,
      ETag: etag(entry),
      ChecksumAlgorithm: entry.checksum?.algorithm,
      ChecksumType: entry.checksum?.type,
      Size: entry.size,
      StorageClass: STORAGE_CLASS,
      Owner: OWNER,
    },
  };
}
