import { branchFailure } from "../failures.ts";
import type { BucketRequest, Operation } from "../operation.ts";
import { xmlAnswer } from "../xml.ts";

/** Always on: every commit stays readable by its id. */
export const getBucketVersioning: Operation<BucketRequest> = {
  permission: "list",
  query: ["versioning"],

  async handle({ branch }) {
    const status = await branch.status();
    if (!status.ok) throw branchFailure(status);
    return xmlAnswer("VersioningConfiguration", { Status: "Enabled" });
  },
};
