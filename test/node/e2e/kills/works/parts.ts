import { changed } from "../../../../simulator/history/model.ts";
import { isSame } from "../../../../simulator/history/states.ts";
import { objectTarget } from "../../../../support/s3.ts";
import { saidOf, unexpected, wrote } from "../client.ts";
import type { Work } from "../load.ts";

const KEYS = ["parts/0", "parts/1", "parts/2"];
const PART_BYTES = 5 * 1024 * 1024;

/** Uploads in parts: each part that was answered is there at the end, whatever died meanwhile. Some end without an object. */
export const PARTS: Work = async (load) => {
  const { history, client } = load;
  const life = load.branch();
  const key = load.oneOf(KEYS);
  const target = objectTarget(life.bucket, key);
  const begun = await client.until(() => client.s3("POST", `${target}?uploads`));
  const [, uploadId] = /<UploadId>([^<]+)</.exec(begun.text) ?? [];
  if (uploadId === undefined) throw unexpected(begun);
  const upload = `${target}?uploadId=${encodeURIComponent(uploadId)}`;
  const isLarge = load.random() < 0.15;
  const { bytes, digest } = load.ownContent(isLarge ? PART_BYTES + 1000 : 7000);
  const sent: string[] = [];
  for (let from = 0; from < bytes.length; from += PART_BYTES) {
    const number = sent.length + 1;
    const body = bytes.subarray(from, from + PART_BYTES);
    const part = await client.until(() => client.s3("PUT", `${upload}&partNumber=${number}`, { body }));
    if (part.status !== 200) throw unexpected(part);
    sent.push(`<Part><PartNumber>${number}</PartNumber><ETag>${part.headers.etag}</ETag></Part>`);
  }
  const end = load.oneOf(["complete", "complete", "abort", "leave"]);
  // Nobody comes back for it.
  if (end === "leave" || !life.admits()) return;
  if (end === "abort") {
    const aborted = await client.until(() => client.s3("DELETE", upload));
    if (aborted.status !== 204 && aborted.status !== 404) throw unexpected(aborted);
    return;
  }
  const id = history.id();
  await history.ask(
    life,
    {
      ...{ id, kind: "upload in parts", text: `complete ${id} of ${key} = ${digest.slice(0, 6)}` },
      leads: ({ before, after }) => isSame(after.tree, changed(before.tree, [[key, digest]])),
    },
    {
      call: () => {
        const body = `<CompleteMultipartUpload>${sent.join("")}</CompleteMultipartUpload>`;
        return client.s3("POST", upload, { headers: saidOf(id), body });
      },
      told: (answer) => {
        // The answer begins before the object is made: it may break off.
        const isWhole = answer.text.includes("<CompleteMultipartUploadResult") || answer.status !== 200;
        return isWhole ? wrote(answer) : { kind: "unknown" };
      },
    },
  );
};
