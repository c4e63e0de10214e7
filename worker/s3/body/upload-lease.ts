import { UPLOAD_LEASE_MS } from "../../branch/contract/uploads.ts";
import { accepted } from "../answer/failures.ts";
import type { BucketRequest } from "../operation.ts";

/** The upload that a body needs if it is too large for a row. It is opened when that shows, and given up if the request fails. */
export class UploadLease {
  readonly #bucket: Pick<BucketRequest, "tree" | "branch" | "caller">;
  #upload: string | undefined;

  constructor(bucket: Pick<BucketRequest, "tree" | "branch" | "caller">) {
    this.#bucket = bucket;
  }

  /** What `writeContent` asks for. */
  get callbacks() {
    const { tree, branch, caller } = this.#bucket;
    return {
      openUpload: async () => {
        const { upload, uid } = accepted(await tree.openUpload({ key: caller.keyId }));
        this.#upload = upload;
        return { upload, uid };
      },
      renewUpload: async (upload: string) => void accepted(await branch.uploads.renew({ upload })),
      uploadLeaseMs: UPLOAD_LEASE_MS,
    };
  }

  /**
   * Best effort: an upload that is not given up runs out by itself. `leaves`: blobs may be left. Call it when what was
   * brought is removed: while the upload is open, a crash is noticed.
   */
  async abort({ leaves }: { readonly leaves: boolean }): Promise<void> {
    if (this.#upload === undefined) return;
    await this.#bucket.branch.uploads.abort({ upload: this.#upload, leaves }).catch(() => {});
  }
}
