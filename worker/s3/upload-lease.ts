import { type BranchApi, UPLOAD_LEASE_MS } from "../branch/contract.ts";
import { branchFailure } from "./failures.ts";

/** The upload that a body too large for a row needs, opened when that shows and given up when the request fails. */
export class UploadLease {
  readonly #branch: BranchApi;
  #upload: string | undefined;

  constructor(branch: BranchApi) {
    this.#branch = branch;
  }

  /** What `writeContent` asks for. */
  get callbacks() {
    return {
      openUpload: () => this.#open(),
      renewUpload: (upload: string) => this.#renew(upload),
      uploadLeaseMs: UPLOAD_LEASE_MS,
    };
  }

  /** Best effort: an upload that is not given up runs out by itself. */
  async abort(): Promise<void> {
    if (this.#upload === undefined) return;
    await this.#branch.abortUpload({ upload: this.#upload }).catch(() => {});
  }

  async #open(): Promise<{ upload: string; uid: string }> {
    const opened = await this.#branch.openUpload({});
    if (!opened.ok) throw branchFailure(opened);
    this.#upload = opened.upload;
    return { upload: opened.upload, uid: opened.uid };
  }

  async #renew(upload: string): Promise<void> {
    const renewed = await this.#branch.renewUpload({ upload });
    if (!renewed.ok) throw branchFailure(renewed);
  }
}
